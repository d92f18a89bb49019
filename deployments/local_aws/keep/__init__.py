"""What keeps ministack's memory on disk, so that an answered request survives kill -9.

ministack holds its state in dictionaries. Before an answer leaves, what the request touched is
written to one SQLite file: whole, or not at all. On start the dictionaries are filled from it.

    request ─▶ ministack changes its dictionaries ─▶ collect (what was touched) ─▶ commit ─▶ answer
"""
