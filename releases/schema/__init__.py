"""The files and texts that describe columns: bin edges, codebooks, descriptions, learned declarations.

In: what a person types or uploads, or what a learning release returned. Out: declarations for ``engine/domain``.
Read ``bin_edges.py`` first, then ``codebook_csv.py``.
"""
