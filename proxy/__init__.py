"""How a request TRAVELS. Sees only the public names of `cache`.

Read in this order; a module imports only what stands above it (`tests/test_house.py` holds it to that):

    errors                        what we, not the worker, tell a client: one class per status and word
    routing                       who should answer, and why                                               (pure)
    auth · openai · sse · headers keys to tenants · OpenAI's words · event streams · what crosses the proxy (pure)
    call · controls · status      the request and its reply · what the caller wants of the cache · what we tell of it
    reading · explain             a call that was read once · an explanation in words                       (pure)
    upstream · health             those who wait for workers: the only door to the aiohttp client · probes
    dispatch · flights            ask another when one fails · equal questions in the air share one answer
    metrics                       what is counted
    gateway                       THE JOURNEY: policy → cache → flights → routing → ask, tell, remember
    wire · api                    bytes out · the doors: HTTP in, HTTP out
    settings · app                every setting, once · the one place that calls constructors
    processes · demo · cli        several processes · simulated workers · the front
"""
