"""What would Rejoinder have served, and how much of it would have been wrong? The real cache, driven offline.

Read in this order; a module imports only what stands above it:

    packs                 files of questions and of pairs                                                    (pure)
    run                   one question after another through the real pipeline; what became of each
    report · replay       counts with their intervals, as one JSON object or a table · a log without truth   (pure)
    curve · plot          risk against coverage · the door to matplotlib
    progress · commands   how far we are · `rejoinder eval` and `rejoinder replay`
"""
