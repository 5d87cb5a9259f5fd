"""The small words of English: which are empty, which carry the frame of a sentence, which verbs are light."""

from cache.words import words

# fmt: off
EMPTY = words("""
    the a an of please do does did is are was were be been being am 's there here just really actually indeed somehow
    currently exactly simply so also very quite then even still ever already yet too well basically literally anyway
    ok okay hi hello hey thanks thank cheers dear uh um hmm fact in_fact kindly that this these those it its it's
    which's what's such kind sort bit lot lots plz pls regards anyone someone somebody anybody thing things stuff
    something anything some any hows whats wheres one's oneself myself yourself either own perhaps maybe possibly
    certain specific particular exact various kinds types type regarding there's theres located total now going has
    had have having i'd i've i'm you're they're we're i'll im ive id let's lets
    """) - {"id"}
FRAME = words("""
    i me my mine we us our ours you your yours he him his she her hers they them their theirs who whom whose what
    which when where why how whether if because to from into onto for in on at by with without about before after
    during until till since through via per than as between against among under over above below out off up down away
    back around across along within inside outside behind beyond near towards toward upon like unless while although
    though but and or nor can could will would shall should may might must won't not no never only all every each both
    neither none nothing nobody else other another more most less least much many few again once twice always
    sometimes often first last same cannot explain describe define definition calculate compute
    """)
LIGHT = words("""
    get make want need help tell know go try able possible possibility way ways come look happen work mean say show
    see find think wish looking wanted made done handle deal concern related involve wanna gonna necessary require let
    ask provide inform obtain receive submit include available allow
    """)
PREPOSITIONS = words("""
    to from into onto for in on at by with without about before after during until till since through via per than as
    between against under over above below within of
    """)
KEEPS_ROLE = words("the a an my our your his her their its this that these those and or one's some any new")
PARTICLES = words("on off out in up down back away")
SPLIT_VERBS = words("turn switch shut take put bring send give log sign set pick check opt move clock cut roll pay")
MAY_BE_MONTH = words("may march")
MONTH_NEIGHBOURS = words("in of until till since by from last next this early late mid every")
# Acronyms that are ordinary words of a help desk; they are no names.
ORDINARY_CAPITALS = words("""
    I A ATM PDF URL API FAQ FAQS SIM PIN TV SMS OK ID IDS PC USB GPS ASAP FYI COD CEO CFO CTO DVD CD HR IT AM PM WIFI
    VAT QR OTP UI UX FAQs NOT NO AND OR ALL ONLY HOW WHAT WHY WHEN WHERE WHO MY THE IS CAN DO PTO ETA AC DIY GPA BMI
    """)
# fmt: on
SMALL = (EMPTY | FRAME) - frozenset(("i",))
# Names that are common words too: names only where a capital says so.
COMMON_TOO = words("""
    switch apple amazon meta edge opera oracle spring react rails flask slack zoom notion visa la ee ruby swift scala
    docker rust nice reading bath phoenix georgia jordan turkey china chile mali cologne florence naples perth lima
    emirates gemini claude llama perl lua angular julia safari chrome windows echo prime flash signal square orange
    chase discover express latin easter mac go nio word excel
    """)
