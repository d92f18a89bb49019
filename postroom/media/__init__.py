"""Attachments become web media: pictures as masters, everything else as documents.

    store = MediaStore(BucketShelf(client("s3"), Names.media_bucket(project, domain)))
    files = [MediaFile(filename, data, original_filename), ...]
    results = await prepare(files, store, message_id=message_id)      # prepare_now() without an event loop
    linked = [store.links(result, hours=settings().presigned_hours) for result in results]

`prepare` gives one MediaResult per file, in order. A file that can't be used has an `error`, the same
text as its warning: the others go on. It may be called again for the same mail, after any failure or
kill: what is stored already is found again, the manifest is written last. It raises only what a retry
may help against (a store that does not answer). Cancelling it kills the children that work for it.

prepare.py    what a mail calls: files in, one MediaResult each, stored once
result.py     MediaFile in, MediaResult out
kinds.py      what a file is, by its content
darkroom.py   pictures are opened only in there: child processes with limits (fork_server, limits, wire)
develop.py    what happens to one picture, inside such a child (opening, colour, salvage, animation, svg)
turns.py      equal pictures at the same time are developed once
store.py      where media lies: layout and index, on a shelf (bucket.py, or a folder: shelves.py)
"""
