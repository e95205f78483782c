"""The cache in which attempts are counted: shared by the site's processes, and each one's own while that is away.

Whoever counts in the shared cache alone lets nobody in once it is away, or lets everybody guess.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.redis import RedisCache
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")

#: A sign-in asks a dozen times; one that waits for each answer would take a dozen of these.
_MAX_SECONDS = 1.0
#: For so long after a failure the shared cache is not asked again.
AWAY_SECONDS = 10.0


class PromptRedisCache(RedisCache):
    """Redis that is asked once and not waited for: there is another place to count."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        prompt = {
            "socket_connect_timeout": _MAX_SECONDS,
            "socket_timeout": _MAX_SECONDS,
            "retry": Retry(NoBackoff(), 0),
        }
        super().__init__(server, {**params, "OPTIONS": {**prompt, **params.get("OPTIONS", {})}})


class SharedOrLocalCache(BaseCache):
    """The cache `shared`, and the cache `local` for a while after `shared` could not be reached."""

    #: Of the whole process: its threads find out together.
    _away_until = 0.0

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._ask(lambda cache: cache.add(key, value, timeout, version=version))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._ask(lambda cache: cache.get(key, default, version=version))

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._ask(lambda cache: cache.set(key, value, timeout, version=version))

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._ask(lambda cache: cache.touch(key, timeout, version=version))

    def delete(self, key: Any, version: int | None = None) -> bool:
        return self._ask(lambda cache: cache.delete(key, version=version))

    def clear(self) -> None:
        caches["local"].clear()
        self._ask(lambda cache: cache.clear())

    def _ask(self, question: Callable[[BaseCache], Answer]) -> Answer:
        if monotonic() >= SharedOrLocalCache._away_until:
            try:
                return question(caches["shared"])
            except (RedisError, OSError) as error:
                SharedOrLocalCache._away_until = monotonic() + AWAY_SECONDS
                logger.warning("the shared cache is away (%s); this process counts by itself", type(error).__name__)
        return question(caches["local"])
