"""How a request TRAVELS. Sees only the public names of `cache`.

Read in this order; a module imports only what stands above it (`tests/test_house.py` holds it to that):

    errors                        what we, not the worker, tell a client: one class per status and word
    routing                       who should answer, and why                                               (pure)
    auth · openai · sse · headers keys to tenants · OpenAI's words · event streams · what crosses the proxy (pure)
    call · controls · status      the request and its reply · what the caller wants of the cache · what we tell of it
    reading · explain             a call that was read once · an explanation in words                       (pure)
    intervals · tally             how sure a count makes us · what would be served, counted                  (pure)
    checks · sampling · measured  a hit that is checked again, how often, and what that says of the others   (pure)
    yes_or_no                     how the judge is asked and its one token read                              (pure)
    upstream · health             those who wait for workers: the only door to the aiohttp client · probes
    dispatch · flights            ask another when one fails · equal questions in the air share one answer
    metrics                       what is counted
    logbook                       keeps what was measured over a restart
    errands · warmups             what a worker is asked in a caller's name · and to read ahead              (pure)
    spare                         the idle time of workers: who may use it, and how he makes way
    judge · shadow                one token of a worker for the grey band · idle workers answer served questions again
    warming                       after a cached answer, the chat's idle home reads that turn
    observer                      observe mode: what would have been served, beside what a worker said
    continuing · continuation     what stopped too early · the rest of it, asked for
    landing                       what becomes of a generation that has ended
    gateway                       THE JOURNEY: policy → cache → flights → routing → ask, tell, remember
    popular · figures             what is served most · from counters to what people ask                   (pure)
    admin                         one table of routes: roles, schemas, audit, OpenAPI; the operator's deeds
    dashboard                     the operator's page, as files
    wire · api                    bytes out · the doors: HTTP in, HTTP out
    settings · app                every setting, once · the one place that calls constructors
    processes · demo              several processes · simulated workers
    evaluation                    what would have been served, and how much of it wrong, offline
    cli                           the front
"""
