"""Pages. Each fetches with a getter that returns the object or a 404, calls one service, and renders."""
