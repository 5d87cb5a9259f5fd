"""English words the guards know: which mean the same in a question to a help desk, and which are opposites.

Our own lists, written for this project; kept small and general on purpose. A group may be loose only where a wrong
union costs nothing but a hit's caution: the vector's threshold has already said that the two texts are near.
One meaning, or one pair of opposite sides, between two semicolons. `_` joins the words of a phrase. A word may stand as
it is written or in base form (`inflection.lemma`); both are looked up.
"""

from cache.words import words

# The first word names the group.
SYNONYMS = """
now right_now at_the_moment at_present; begin start launch commence kick_off;
delete remove erase wipe get_rid_of; create set_up setup establish generate;
change update modify edit alter amend adjust; buy purchase; book reserve reservation booking;
cost price pricing fee charge fare; shop store outlet; phone telephone;
mobile cellphone cell_phone smartphone mobile_phone handset; movie film; picture photo image photograph pic;
child kid; mother mum mom; father dad; doctor physician; flat apartment; holiday vacation annual_leave;
car vehicle automobile motor; journey trip travel; parcel package; deliver delivery ship shipping shipment;
voucher coupon promo_code promotional_code discount_code promo; refund money_back reimbursement reimburse;
return send_back give_back; warranty guarantee;
hours opening_hours business_hours opening_times opening_time business_hour opening_hour;
contact reach get_in_touch get_in_touch_with get_hold_of talk_to speak_to speak_with talk_with;
support customer_service customer_support help_desk helpdesk customer_care; agent representative operator;
password passcode; login log_in sign_in log_on signin logon; logout log_out sign_out log_off sign_off signout;
register sign_up enrol registration signup; bill invoice; email e-mail mail;
wifi wi-fi wireless_network wireless_internet; laptop notebook_computer; tv television; symptom sign;
flu influenza; covid coronavirus corona corona_virus covid-19 covid19 covid_19 sars-cov-2 novel_coronavirus;
disease illness sickness; sick ill unwell; medicine medication; vaccine vaccination jab; baby infant newborn;
fast quick rapid speedy; big large huge; small little tiny; hard difficult tough; easy simple;
cheap inexpensive affordable; expensive costly; finish complete; find locate look_up; show display view see;
verify confirm authenticate verification; allow permit; forbid ban prohibit disallow;
need require necessary have_to must required got_to; use utilise utilize; fix repair solve resolve;
problem issue trouble; mistake error; broken faulty damage defective; steal nick; transfer move;
choose select pick; explain describe; meaning definition; tip advice suggestion; improve enhance; speak talk;
amount quantity; freeze lock block; unfreeze unlock unblock; connect link pair hook_up;
disconnect unlink unpair; atm cashpoint cash_machine cash_point; credit_score credit_rating;
enable turn_on switch_on activate activation; disable turn_off switch_off deactivate shut_off;
increase raise bump_up put_up boost; decrease reduce lower bring_down cut_down;
drawback downside disadvantage con; benefit advantage pro upside; reset set_new; lose forget misplace;
missing lost; road street; worker employee staff personnel; notification notify alert;
screenshot print_screen screen_shot capture_screen; repository repo; fibre fiber; colour color; centre center;
favourite favorite; licence license; cheque check_book; program programme; enquiry inquiry; parking park;
apply application; keep retain; correct right; wrong incorrect; identical same; wage salary pay_packet;
last final; previous earlier prior former; next upcoming following; maximum max most_possible at_most;
minimum min at_least; quickest fastest; whole entire full; nearby near_me close_by; overseas abroad;
worldwide globally internationally; meet see_each_other; standing_order recurring_payment;
top_up topup recharge load_up; replace replacement; postpone delay put_off; renew renewal;
cancel cancellation call_off; withdraw withdrawal take_out; approve approval;
reject decline deny refuse turn_down rejection; submit hand_in send_in file; assist assistance;
usa us_of_america united_states united_states_of_america u.s. u.s.a. america;
uk united_kingdom great_britain britain u.k.; eu european_union; wireless wirelessly;
safe secure safety; document paperwork paper papers; exchange_rate conversion_rate; die death dead decease pass_away;
infected contract_infection catch infect; spread transmit diffuse; test testing; author writer write
"""

# Opposite actions and states: left side against right side.
OPPOSITES = """
enable | disable; turn_up | turn_down disable enable; turn_down | enable disable; dim | brighten disable enable;
open | close shut; buy | sell; install | uninstall; increase gain grow rise | decrease lose fall drop shrink;
before | after; near nearby close_to | far far_from far_away; send | receive;
get receive obtain | give make send provide offer submit pay;
lock freeze block | unlock unfreeze unblock; login | logout;
register join subscribe | unsubscribe leave unregister deregister; connect | disconnect;
add | delete subtract deduct; create | delete destroy; upgrade | downgrade; upload | download; import | export;
encode | decode; encrypt | decrypt; compress zip | decompress unzip extract; mute | unmute; archive | unarchive;
pause suspend | resume unpause continue; follow | unfollow; pin | unpin; hide conceal | show reveal unhide;
show | conceal; public | private hidden; accept approve | reject; grant give assign | revoke take_away withdraw;
allow | forbid; legal lawful | illegal unlawful; include | exclude; attach | detach; lend | borrow;
deposit pay_in | withdraw; credit | debit; win | lose; succeed pass success | fail failure; approve | reject;
start begin | stop end finish quit; enter join | exit leave quit; arrive arrival | depart departure leave;
push | pull; pickup pick_up | drop_off dropoff deliver; inhale | exhale; teach | learn; question ask | answer;
ask | answer; employ hire | fire dismiss sack; marry | divorce; remember | forget; find | lose;
love like | hate dislike; trust | distrust mistrust; agree | disagree; wake | sleep; stand | sit;
expand | collapse contract; zoom_in | zoom_out; maximise maximize | minimise minimize; lengthen | shorten;
widen | narrow; heat warm | cool chill; melt | freeze; fill | empty drain; load | unload; mount | unmount;
plug plug_in | unplug; wrap | unwrap; pack | unpack; tie | untie; dress | undress; cover | uncover;
fold | unfold; roll_forward | roll_back; commit | revert; merge | split; enlist | discharge; recruit | dismiss;
insert | eject; insure | uninsured; most | least; more | less fewer; many | few; much | little; high | low;
higher | lower; highest | lowest; big | small; bigger larger | smaller; biggest largest | smallest;
tall | short; taller longer | shorter; tallest longest | shortest; long | short; wide broad | narrow;
thick | thin; thicker | thinner; deep | shallow; heavy | light; heavier | lighter; heaviest | lightest;
strong | weak; stronger | weaker; strongest | weakest; fast | slow; faster quicker | slower; fastest | slowest;
early | late; earlier sooner | later; earliest | latest; first | last; young | old; younger | older;
youngest | oldest; new | old used second-hand secondhand refurbished; newest latest | oldest; newer | older;
good | bad; better | worse; best | worst; rich wealthy | poor; cheap | expensive; cheaper | dearer;
cheapest | priciest; easy | hard; easier | harder; hot warm | cold cool; hotter warmer | colder cooler;
hottest warmest | coldest coolest; wet | dry; clean | dirty; full | empty; loud noisy | quiet silent;
bright light | dark dim; brighter | darker dimmer; happy | sad; safe | dangerous unsafe risky;
healthy | unhealthy; true | false; right correct | wrong; left | right; positive | negative;
active | passive inactive; male man boy masculine | female woman girl feminine; husband | wife; son | daughter;
brother | sister; father | mother; king | queen; uncle | aunt; he him his | she her hers;
landlord | tenant renter; employer boss | worker; buyer | seller; teacher | student pupil; parent | child;
lender | borrower; doctor nurse | patient; host | guest; sender | recipient receiver;
admin administrator owner | user; driver | passenger; customer client | supplier vendor merchant;
plaintiff | defendant; winner | loser; predator | prey; adult | child baby; human | robot animal;
personal private | business commercial; public | private; domestic | international foreign;
national | international; local | remote foreign global; indoor inside indoors | outdoor outside outdoors;
internal | external; interior | exterior; online | offline in_person in-store; in-store | online; free | paid;
fixed | variable floating flexible; temporary | permanent; optional voluntary | compulsory mandatory obligatory;
single | married; single | double multiple return; one-way | return; joint | sole; part-time | full-time;
prepaid | postpaid; gross | net; import | export; input | output; inbound incoming | outbound outgoing;
upstream | downstream; frontend front-end | backend back-end; client | server; hardware | software;
wired | wireless; automatic | manual; analog analogue | digital; ascending | descending;
increasing rising | decreasing falling; horizontal | vertical; odd | even; even | odd; plural | singular;
prime | composite; even | uneven; lowercase lower-case | uppercase upper-case; prefix | suffix;
beginning | ending; top | bottom; upper | lower; front | back rear; north northern | south southern;
east eastern | west western; northeast | southwest; up | down decrease; down | increase;
off | enable; on | off; in into | out; inside | outside;
over above | under below beneath; over | under; above | below; with | without; within | outside after;
since | until till; since | before; past | future; yesterday | tomorrow; today | tomorrow yesterday;
tonight | tomorrow; am a.m. | pm p.m.; morning | evening afternoon night; day daytime | night nighttime;
weekday | weekend; summer | winter; spring | autumn; benefit | drawback; strength | weakness; profit | loss;
income revenue earnings | expense expenditure spending; asset | liability; supply | demand; cause | effect;
effect | cause; question | answer; problem | solution; theory | practice; quality | quantity; minimum | maximum;
all every everything everyone everybody | none nothing nobody; always | never; everywhere | nowhere;
everyone | nobody; both | neither; and | or; include included | excluded; cooked | raw; raw | cooked;
fresh | frozen stale; alive living | die; alive | dead; sweet | sour bitter salty; spicy hot | mild;
vegetarian vegan | meat; sunny | cloudy rainy; boil | freeze; hypertension | hypotension;
hyperglycemia | hypoglycemia; hyperthyroidism | hypothyroidism; acid acidic | alkaline; solid | liquid gas;
liquid | gas; animal | plant; proton | electron neutron; positive | negative; renewable | fossil; major | minor;
senior | junior; undergraduate bachelor | postgraduate graduate master phd; primary elementary | secondary;
primary | secondary; basic | premium advanced pro; beginner | advanced expert; front | rear;
original | copy fake counterfeit; accident | purpose; guilty | innocent; lawful | unlawful;
short-haul | long-haul; adult | minor; pay | owe; spend | save earn; save | waste; debtor | creditor;
attack | defend defence defense; war | peace; friend | enemy; present | absent; presence | absence; rise | set;
sunrise | sunset; dawn | dusk; appear | disappear; freeze | thaw defrost; improve | worsen;
accelerate | decelerate brake; strengthen | weaken; lift raise | lower drop; charge | discharge;
check_in checkin check-in | check_out checkout check-out; opt_in | opt_out; log_in | log_out;
sign_in | sign_out; clock_in | clock_out; move_in | move_out; turn_up | turn_down; gain weight | lose;
hold | release; capture catch | release; keep | discard throw_away; retain | dismiss; use | avoid;
should | shouldn't; consent | refuse; opposite | same; identical | different;
same same-day | different next-day; similar | different; similarity | difference
"""

# Prefixes that make another word of a word, often its opposite: refundable and non-refundable.
PREFIXES = words("""
    un in im il ir dis de non non- mis anti anti- self- ex- ex re pre post co- over under sub semi- semi multi multi-
    hyper hypo inter intra out up down
    """)

NEGATIONS = words("""
    not no never without neither nor cannot none nothing nobody nowhere except excluding unless hardly barely avoid
    instead unable unwilling lack lacking minus prevent stop
    """)

# Words of extent, told by what they do.
SCOPE = {
    word: scope
    for scope, said in {
        "only": "only solely exclusively", "all": "all every everything everyone everybody entire whole",
        "each": "each",
        "except": "except excluding besides", "most": "most", "least": "least", "best": "best", "worst": "worst",
        "first": "first", "second": "second", "last": "last final", "next": "next", "previous": "previous",
        "min": "minimum min", "max": "maximum max", "always": "always", "never": "never", "again": "again",
        "another": "another", "other": "other", "both": "both simultaneously", "more": "more",
        "less": "less fewer", "without": "without", "per": "per", "several": "multiple several",
    }.items()
    for word in said.split()
}  # fmt: skip
