"""What happens inside Redis: each change of the store is one Lua script, so it happens whole or not at all.

Keys, all with one hash tag and so in one slot of a cluster, and all derived from `{prefix}`, the first key given:
    :meta              hash: secret (fingerprint), epoch (random, new after a flush), seq (puts), n (feed records)
    :e:<id>            hash: m (columns as JSON), b (body), v (vector); expires by itself
    :k:<scope>:<key>   the id with this exact key; expires with it
    :w:<scope>:<words> sorted set: the newest ids with this wording, by their time
    :created :expires  sorted sets: every id, by the order of puts and by time
    :rows:<embedder>   sorted set: searchable ids, by seq;  :embedders names them
    :feed              stream: n (contiguous, so that a gap shows), o (who wrote), a (id added), r (ids removed), and
                       where there are such: q (those of r that were quarantined), h (entry:session that hid it)

What people say of entries, in the order of a counter in :meta (notes):
    :q:<id>            hash: an entry out of service, as above, with r (reason), t (time), w (whose); only these three
                       where it was barred before it came.  :quarantine lists them
    :label             hash: <entry>:<principal> → [label, comment].  :labels lists them
    :bad:<entry>       set: the principals that call it wrong.  :review: those entries, by the latest time
    :hidden            sorted set: <entry>:<session>:<tenant>
    :t:<receipt>       the id of the entry that a turn was answered from; expires with it.  :receipts lists them
    :p:<place>         sorted set: who asked this question, by time.  :places: <place>:<tenant>

m = [id, tenant, model, scope, key, kind, text, proof, wording, reach, tokens, prompt tokens, created, expires,
embedder, scope digest]; an `expires` of null is never. Ids travel as text: Lua's numbers hold 53 bits only.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Final

SAME_WORDING: Final = 16  # ids remembered for one wording

_PRELUDE = """
local base = KEYS[1]
local meta = base .. ':meta'
local function given(value) return value and value ~= cjson.null end

-- Is this our data? ARGV[1]: fingerprint, ARGV[2]: an epoch for an empty server, ARGV[3]: who writes.
local function foreign()
    local secret = redis.call('HGET', meta, 'secret')
    if not secret then
        redis.call('HSET', meta, 'secret', ARGV[1], 'epoch', ARGV[2])
        return false
    end
    return secret ~= ARGV[1]
end

-- Take one entry out of every list. Returns whether it was still counted.
local function unlist(id, found)
    local held = redis.call('ZREM', base .. ':created', id)
    redis.call('ZREM', base .. ':expires', id)
    if found then
        local m = cjson.decode(found)
        local key = base .. ':k:' .. m[16] .. ':' .. m[5]
        if redis.call('GET', key) == id then redis.call('DEL', key) end
        if given(m[9]) then redis.call('ZREM', base .. ':w:' .. m[16] .. ':' .. m[9], id) end
        if given(m[15]) then redis.call('ZREM', base .. ':rows:' .. m[15], id) end
    else
        for _, embedder in ipairs(redis.call('SMEMBERS', base .. ':embedders')) do
            redis.call('ZREM', base .. ':rows:' .. embedder, id)
        end
    end
    return held == 1
end

-- Forget one entry. Returns whether it was still counted.
local function drop(id)
    local held = unlist(id, redis.call('HGET', base .. ':e:' .. id, 'm'))
    redis.call('DEL', base .. ':e:' .. id)
    return held
end

local function tell(limit, added, removed, ...)
    if added == '' and #removed == 0 and select('#', ...) == 0 then return end
    local n = redis.call('HINCRBY', meta, 'n', 1)
    redis.call('XADD', base .. ':feed', 'MAXLEN', '~', limit, '*',
        'n', n, 'o', ARGV[3], 'a', added, 'r', table.concat(removed, ' '), ...)
end

-- This principal does not call this entry wrong any more.
local function unsay(entry, principal)
    local said = base .. ':bad:' .. entry
    if redis.call('SREM', said, principal) == 1 and redis.call('SCARD', said) == 0 then
        redis.call('ZREM', base .. ':review', entry)
    end
end

local function lose(label)
    redis.call('HDEL', base .. ':label', label)
    redis.call('ZREM', base .. ':labels', label)
    unsay(string.match(label, '^(%d+):(.*)$'))
end
"""

_ADMIT = """
for i = 4, #ARGV do
    if redis.call('HGET', meta, 'secret') == ARGV[i] then redis.call('HSET', meta, 'secret', ARGV[1]) end
end
if foreign() then return redis.error_reply('FOREIGN another secret') end
local last = redis.call('XREVRANGE', base .. ':feed', '+', '-', 'COUNT', 1)
return {redis.call('HGET', meta, 'epoch'), redis.call('HGET', meta, 'n') or '0', last[1] and last[1][1] or '0-0'}
"""

_PUT = """
if foreign() then return redis.error_reply('FOREIGN another secret') end
local feed, capacity, id = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local m = cjson.decode(ARGV[7])
local body, vector, ttl = ARGV[8], ARGV[9], ARGV[10]
local entry = base .. ':e:' .. id
local key = base .. ':k:' .. m[16] .. ':' .. m[5]
local gone = {}
-- First of all a command that a server without memory refuses: refused later, half of the change would have happened.
local seq = redis.call('HINCRBY', meta, 'seq', 1)
if ARGV[11] == 'release' then
    redis.call('DEL', base .. ':q:' .. id)
    redis.call('ZREM', base .. ':quarantine', id)
elseif redis.call('EXISTS', base .. ':q:' .. id) == 1 then
    return {id}
end
local old = redis.call('GET', key)
if old and old ~= id and drop(old) then gone[#gone + 1] = old end
drop(id)
local excess = redis.call('ZCARD', base .. ':created') + 1 - capacity
if excess > 0 then
    for _, oldest in ipairs(redis.call('ZRANGE', base .. ':created', 0, math.min(excess, 1000) - 1)) do
        if drop(oldest) then gone[#gone + 1] = oldest end
    end
end
redis.call('HSET', entry, 'm', ARGV[7], 'b', body)
redis.call('SET', key, id)
redis.call('ZADD', base .. ':created', seq, id)
redis.call('ZADD', base .. ':expires', given(m[14]) and m[14] or '+inf', id)
if ttl ~= '' then
    redis.call('PEXPIRE', entry, ttl)
    redis.call('PEXPIRE', key, ttl)
end
local added = ''
if given(m[15]) then
    redis.call('HSET', entry, 'v', vector)
    redis.call('ZADD', base .. ':rows:' .. m[15], seq, id)
    redis.call('SADD', base .. ':embedders', m[15])
    added = id
end
if given(m[9]) then
    local words = base .. ':w:' .. m[16] .. ':' .. m[9]
    local left = redis.call('PTTL', words)  -- -2: not there, -1: never
    redis.call('ZADD', words, m[13], id)
    redis.call('ZREMRANGEBYRANK', words, 0, -1 - SAME_WORDING)
    if ttl == '' then redis.call('PERSIST', words)
    elseif left == -2 or (left >= 0 and left < tonumber(ttl)) then redis.call('PEXPIRE', words, ttl) end
end
tell(feed, added, gone)
return gone
"""

_FIND = """
-- ARGV: scope digest, key, wording or '', since, now
local now = tonumber(ARGV[5])
local out = {}
local function fetch(id)
    local found = redis.call('HMGET', base .. ':e:' .. id, 'm', 'b')
    if not found[1] then return false end
    local expires = cjson.decode(found[1])[14]
    if given(expires) and expires <= now then return false end
    out[#out + 1] = found[1]
    out[#out + 1] = found[2]
    return true
end
local exact = redis.call('GET', base .. ':k:' .. ARGV[1] .. ':' .. ARGV[2])
local served = exact and fetch(exact)
if ARGV[3] ~= '' then
    local words = base .. ':w:' .. ARGV[1] .. ':' .. ARGV[3]
    for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', words, '+inf', ARGV[4])) do
        if (served and id == exact) or fetch(id) then break end
    end
end
return out
"""

_FORGET = """
-- ARGV[5]: what must hold, as JSON; ARGV[6...]: ids. Returns those that are gone.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local want = cjson.decode(ARGV[5])
local gone, asked = {}, {}
for i = 6, #ARGV do
    local id = ARGV[i]
    asked[#asked + 1] = id
    local found = redis.call('HGET', base .. ':e:' .. id, 'm')
    local fits = not (found and want.missing)
    if fits and (want.tenant or want.model or want.scope) then
        -- Redis let it expire already: whose it was is not known any more, and `sweep` will report it.
        if not found then fits = false else
            local m = cjson.decode(found)
            fits = (not want.tenant or want.tenant == m[2]) and (not want.model or want.model == m[3])
                and (not want.scope or want.scope == m[4])
        end
    end
    if fits and want.expired_by then
        local expires = redis.call('ZSCORE', base .. ':expires', id)
        fits = expires and tonumber(expires) <= want.expired_by
    end
    if fits and drop(id) then gone[#gone + 1] = id end
end
-- By name: a session elsewhere may hold a copy of what the store has not, or no longer.
tell(ARGV[4], '', want.named and asked or gone)
return gone
"""

_QUARANTINE = """
-- ARGV: reason, whose, now, how long an id is barred (ms), most kept, ids. Returns those that were held.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local gone, told = {}, {}
for i = 10, #ARGV do
    local id = ARGV[i]
    local out, entry = base .. ':q:' .. id, base .. ':e:' .. id
    local n = redis.call('HINCRBY', meta, 'notes', 1)
    if redis.call('EXISTS', out) == 0 then
        local found = redis.call('HGET', entry, 'm')
        if unlist(id, found) and found then gone[#gone + 1] = id end
        if found then redis.call('RENAME', entry, out) end  -- and when it ends goes with it
        redis.call('HSET', out, 'r', ARGV[5], 't', ARGV[7], 'w', ARGV[6])
        if not found then redis.call('PEXPIRE', out, ARGV[8]) end
        redis.call('ZADD', base .. ':quarantine', n, id)
        redis.call('ZREM', base .. ':review', id)
    end
    told[#told + 1] = id
end
for _, oldest in ipairs(redis.call('ZREVRANGE', base .. ':quarantine', ARGV[9], -1)) do
    redis.call('DEL', base .. ':q:' .. oldest)
    redis.call('ZREM', base .. ':quarantine', oldest)
end
tell(ARGV[4], '', told, 'q', table.concat(told, ' '))
return gone
"""

_ERASE = """
-- Forget what is out of service. ARGV[5]: what must hold, as JSON; ARGV[6...]: ids. Returns the entries that are gone.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local want = cjson.decode(ARGV[5])
local gone = {}
for i = 6, #ARGV do
    local id = ARGV[i]
    local out = base .. ':q:' .. id
    local found = redis.call('HMGET', out, 'm', 'w')
    local m = found[1] and cjson.decode(found[1])
    local fits = true
    if m then
        fits = (not want.tenant or want.tenant == m[2]) and (not want.model or want.model == m[3])
            and (not want.scope or want.scope == m[4])
            and (not want.expired_by or (given(m[14]) and m[14] <= want.expired_by))
    elseif found[2] then
        fits = (not want.tenant or want.tenant == found[2])
            and not (want.model or want.scope or (want.expired_by and want.expired_by < 1e300))
    end  -- else it has expired already, and only the list knows of it
    if fits then
        redis.call('DEL', out)
        redis.call('ZREM', base .. ':quarantine', id)
        if m then gone[#gone + 1] = id end
    end
end
return gone
"""

_RELEASE = """
-- ARGV[5]: an id. Drops the complaints about it, and a bar without an entry. Returns the entry, if it has one: m, b, v.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local out = base .. ':q:' .. ARGV[5]
if redis.call('EXISTS', out) == 0 then return {} end
for _, principal in ipairs(redis.call('SMEMBERS', base .. ':bad:' .. ARGV[5])) do lose(ARGV[5] .. ':' .. principal) end
local found = redis.call('HMGET', out, 'm', 'b', 'v')
if found[1] then return {found[1], found[2], found[3] or ''} end
redis.call('DEL', out)
redis.call('ZREM', base .. ':quarantine', ARGV[5])
return {}
"""

_LABEL = """
-- ARGV: entry, principal, complaint ('1' or ''), when, label and comment as JSON, session or '', tenant, most labels,
-- most hidden. Returns how many principals call the entry wrong.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local entry, principal, session = ARGV[5], ARGV[6], ARGV[10]
local n = redis.call('HINCRBY', meta, 'notes', 1)
local label = entry .. ':' .. (principal ~= '' and principal or '#' .. n)
redis.call('HSET', base .. ':label', label, ARGV[9])
redis.call('ZADD', base .. ':labels', n, label)
if ARGV[7] == '1' then
    redis.call('SADD', base .. ':bad:' .. entry, principal)
    if redis.call('EXISTS', base .. ':q:' .. entry) == 0 then
        redis.call('ZADD', base .. ':review', 'GT', ARGV[8], entry)
    end
else
    unsay(entry, principal)
end
for _, oldest in ipairs(redis.call('ZREVRANGE', base .. ':labels', ARGV[12], -1)) do lose(oldest) end
if session ~= '' then
    redis.call('ZADD', base .. ':hidden', n, entry .. ':' .. session .. ':' .. ARGV[11])
    redis.call('ZREMRANGEBYRANK', base .. ':hidden', 0, -1 - ARGV[13])
    tell(ARGV[4], '', {}, 'h', entry .. ':' .. session)
end
return {redis.call('SCARD', base .. ':bad:' .. entry)}
"""

_LOSE = """
-- Forget labels. ARGV[5]: what must hold, as JSON; ARGV[6...]: which.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local want = cjson.decode(ARGV[5])
for i = 6, #ARGV do
    local found = redis.call('HGET', base .. ':label', ARGV[i])
    local label = found and cjson.decode(found)[1]
    if not label or ((not want.tenant or want.tenant == label[5]) and (not want.model or want.model == label[6])) then
        lose(ARGV[i])
    end
end
return {}
"""

_ASKED = """
-- ARGV: place, principal, tenant, now, since, ttl (ms), most places. Returns how many asked since then.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local place = base .. ':p:' .. ARGV[5]
redis.call('ZADD', place, ARGV[8], ARGV[6])
redis.call('ZREMRANGEBYSCORE', place, '-inf', ARGV[9])
redis.call('PEXPIRE', place, ARGV[10])
redis.call('ZADD', base .. ':places', redis.call('HINCRBY', meta, 'notes', 1), ARGV[5] .. ':' .. ARGV[7])
for _, oldest in ipairs(redis.call('ZREVRANGE', base .. ':places', ARGV[11], -1)) do
    redis.call('DEL', base .. ':p:' .. string.match(oldest, '^[^:]+'))
    redis.call('ZREM', base .. ':places', oldest)
end
return {redis.call('ZCARD', place)}
"""

_NOTE = """
-- ARGV: most kept, then for each receipt its name, the entry's id, its life (ms) or ''.
if foreign() then return redis.error_reply('FOREIGN another secret') end
local listed = base .. ':receipts'
for i = 6, #ARGV, 3 do
    local n = redis.call('HINCRBY', meta, 'notes', 1)
    if ARGV[i + 2] == '' then redis.call('SET', base .. ':t:' .. ARGV[i], ARGV[i + 1])
    else redis.call('SET', base .. ':t:' .. ARGV[i], ARGV[i + 1], 'PX', ARGV[i + 2]) end
    redis.call('ZADD', listed, n, ARGV[i])
end
for _, oldest in ipairs(redis.call('ZREVRANGE', listed, ARGV[5], -1)) do
    redis.call('DEL', base .. ':t:' .. oldest)
    redis.call('ZREM', listed, oldest)
end
return {}
"""

_RECEIPTS = """
-- ARGV: now, names. Returns name, id and end of life of those whose entries are served.
local now = tonumber(ARGV[1])
local out = {}
for i = 2, #ARGV do
    local id = redis.call('GET', base .. ':t:' .. ARGV[i])
    local found = id and redis.call('HGET', base .. ':e:' .. id, 'm')
    if found then
        local expires = cjson.decode(found)[14]
        if not given(expires) then expires = '' end
        if expires == '' or expires > now then
            out[#out + 1] = ARGV[i]
            out[#out + 1] = id
            out[#out + 1] = expires == '' and '' or string.format('%.17g', expires)
        end
    end
end
return out
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the digest by which a server that has seen it knows it."""

    source: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.source.encode()).hexdigest())


def _script(body: str) -> Script:
    return Script(_PRELUDE + body.replace("SAME_WORDING", str(SAME_WORDING)))


ADMIT: Final = _script(_ADMIT)
PUT: Final = _script(_PUT)
FIND: Final = _script(_FIND)
FORGET: Final = _script(_FORGET)
QUARANTINE: Final = _script(_QUARANTINE)
ERASE: Final = _script(_ERASE)
RELEASE: Final = _script(_RELEASE)
LABEL: Final = _script(_LABEL)
LOSE: Final = _script(_LOSE)
ASKED: Final = _script(_ASKED)
NOTE: Final = _script(_NOTE)
RECEIPTS: Final = _script(_RECEIPTS)
SCRIPTS: Final = (ADMIT, PUT, FIND, FORGET, QUARANTINE, ERASE, RELEASE, LABEL, LOSE, ASKED, NOTE, RECEIPTS)
