"""What happens inside Redis: each change of the store is one Lua script, so it happens whole or not at all.

Keys, all with one hash tag and so in one slot of a cluster, and all derived from `{prefix}`, the first key given:
    :meta              hash: secret (fingerprint), epoch (random, new after a flush), seq (puts), n (feed records),
                       uses (of all entries), bytes (of all entries)
    :e:<id>            hash: m (columns as JSON), b (body), v (vector); expires by itself
    :k:<scope>:<key>   the id with this exact key; expires with it
    :w:<scope>:<words> sorted set: the newest ids with this wording, by their time
    :created :expires :worth :sizes
                       sorted sets: every id, by the order of puts, by time, by `cache.worth` and by its bytes
    :g:<name>          set: the ids that bear this name of `cache.tags`, hashed by SHA-1; expires with them
    :departed          sorted set: <scope>:<key> of entries that had to leave, by what they were worth
    :rows:<embedder>   sorted set: searchable ids, by seq;  :embedders names them
    :feed              stream: n (contiguous, so that a gap shows), o (who wrote), a (id added), r (ids removed), and
                       where there are such: q (those of r that were quarantined), h (entry:session that hid it)

What people say of entries stands under the keys that `cache.store.ledger_scripts` names.

m = [id, tenant, model, scope, key, kind, text, proof, wording, reach, tokens, prompt tokens, created, expires,
embedder, tags (a JSON list), scope digest]; an `expires` of null is never. Ids travel as text: Lua's numbers hold 53
bits only.
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

-- The ids that bear a name.
local function tagged(name) return base .. ':g:' .. redis.sha1hex(name) end

local function bears(m, name)
    for _, each in ipairs(cjson.decode(m[16])) do if each == name then return true end end
    return false
end

-- Does an entry match what is wanted, its end aside?
local function matches(m, want)
    return (not want.tenant or want.tenant == m[2]) and (not want.model or want.model == m[3])
        and (not want.scope or want.scope == m[4]) and (not want.tag or bears(m, want.tag))
        and not (want.unless and bears(m, want.unless)) and (not want.before or m[13] < want.before)
end

-- Take one entry out of every list. Returns whether it was still counted.
local function unlist(id, found)
    local held = redis.call('ZREM', base .. ':created', id)
    redis.call('ZREM', base .. ':expires', id)
    redis.call('ZREM', base .. ':worth', id)
    local size = redis.call('ZSCORE', base .. ':sizes', id)
    if size then
        redis.call('ZREM', base .. ':sizes', id)
        redis.call('HINCRBY', meta, 'bytes', -size)
    end
    if found then
        local m = cjson.decode(found)
        local key = base .. ':k:' .. m[17] .. ':' .. m[5]
        if redis.call('GET', key) == id then redis.call('DEL', key) end
        if given(m[9]) then redis.call('ZREM', base .. ':w:' .. m[17] .. ':' .. m[9], id) end
        if given(m[15]) then redis.call('ZREM', base .. ':rows:' .. m[15], id) end
        for _, name in ipairs(cjson.decode(m[16])) do redis.call('SREM', tagged(name), id) end
    else
        for _, embedder in ipairs(redis.call('SMEMBERS', base .. ':embedders')) do
            redis.call('ZREM', base .. ':rows:' .. embedder, id)
        end
    end
    return held == 1
end

-- What an entry is worth after one more use, see cache.worth.
local function later(worth, use)
    worth = tonumber(worth)
    if not worth then return use end
    local high, low = math.max(worth, use), math.min(worth, use)
    return high + math.log(1 + 2 ^ math.max(low - high, -60)) / math.log(2)
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
local feed, id = ARGV[4], ARGV[5]
local m = cjson.decode(ARGV[6])
local body, vector, ttl = ARGV[7], ARGV[8], ARGV[9]
local most, most_bytes, half_life = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local window, remembered, size, gain = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local entry = base .. ':e:' .. id
local key = base .. ':k:' .. m[17] .. ':' .. m[5]
local gone = {}
-- First of all a command that a server without memory refuses: refused later, half of the change would have happened.
local seq = redis.call('HINCRBY', meta, 'seq', 1)
if ARGV[10] == 'release' then
    redis.call('DEL', base .. ':q:' .. id)
    redis.call('ZREM', base .. ':quarantine', id)
elseif redis.call('EXISTS', base .. ':q:' .. id) == 1 then
    return {id}
end
local old = redis.call('GET', key)
if old and old ~= id and drop(old) then gone[#gone + 1] = old end
drop(id)
local name = m[17] .. ':' .. m[5]
local worth = later(redis.call('ZSCORE', base .. ':departed', name),
    redis.call('HINCRBY', meta, 'uses', 1) / half_life + gain)
redis.call('ZREM', base .. ':departed', name)
redis.call('ZADD', base .. ':worth', worth, id)
redis.call('ZADD', base .. ':sizes', size, id)
local held = tonumber(redis.call('HINCRBY', meta, 'bytes', size))
local number = redis.call('ZCARD', base .. ':created') + 1
local place = 0  -- beyond those that are too new to leave
for _ = 1, 1000 do
    if number <= most and (most_bytes == 0 or held <= most_bytes) then break end
    local least = redis.call('ZRANGE', base .. ':worth', place, place, 'WITHSCORES')
    if not least[1] then break end
    local put = redis.call('ZSCORE', base .. ':created', least[1])
    if least[1] == id or (put and tonumber(put) > seq - math.max(1, math.floor(number / window))) then
        place = place + 1
    else
        local left = redis.call('HGET', base .. ':e:' .. least[1], 'm')
        if left then
            left = cjson.decode(left)
            redis.call('ZADD', base .. ':departed', least[2], left[17] .. ':' .. left[5])
        end
        if drop(least[1]) then
            gone[#gone + 1] = least[1]
            number = number - 1
        end
        held = tonumber(redis.call('HGET', meta, 'bytes'))
    end
end
redis.call('ZREMRANGEBYRANK', base .. ':departed', 0, -remembered - 1)
redis.call('HSET', entry, 'm', ARGV[6], 'b', body)
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
for _, name in ipairs(cjson.decode(m[16])) do
    local left = redis.call('PTTL', tagged(name))  -- -2: not there, -1: never
    redis.call('SADD', tagged(name), id)
    if ttl == '' then redis.call('PERSIST', tagged(name))
    elseif left == -2 or (left >= 0 and left < tonumber(ttl)) then redis.call('PEXPIRE', tagged(name), ttl) end
end
if given(m[9]) then
    local words = base .. ':w:' .. m[17] .. ':' .. m[9]
    local left = redis.call('PTTL', words)  -- -2: not there, -1: never
    redis.call('ZADD', words, m[13], id)
    redis.call('ZREMRANGEBYRANK', words, 0, -1 - SAME_WORDING)
    if ttl == '' then redis.call('PERSIST', words)
    elseif left == -2 or (left >= 0 and left < tonumber(ttl)) then redis.call('PEXPIRE', words, ttl) end
end
tell(feed, added, gone)
return gone
"""

_USE = """
-- ARGV: half-life, uses in all, then id and weight of each
local moment = redis.call('HINCRBY', meta, 'uses', ARGV[2]) / tonumber(ARGV[1])
for i = 3, #ARGV, 2 do
    local worth = redis.call('ZSCORE', base .. ':worth', ARGV[i])
    if worth then redis.call('ZADD', base .. ':worth', later(worth, moment + tonumber(ARGV[i + 1])), ARGV[i]) end
end
return 0
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
    if fits and (want.tenant or want.model or want.scope or want.tag or want.unless or want.before) then
        -- Redis let it expire already: whose it was is not known any more, and `sweep` will report it.
        fits = found and matches(cjson.decode(found), want)
    end
    if fits and want.expired_by then
        local expires = redis.call('ZSCORE', base .. ':expires', id)
        fits = expires and tonumber(expires) <= want.expired_by
    end
    if fits and want.count then
        if found then gone[#gone + 1] = id end
    elseif fits and drop(id) then
        gone[#gone + 1] = id
    end
end
if want.count then return gone end
-- By name: a session elsewhere may hold a copy of what the store has not, or no longer.
tell(ARGV[4], '', want.named and asked or gone)
return gone
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the digest by which a server that has seen it knows it."""

    source: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.source.encode()).hexdigest())


def script(body: str) -> Script:
    """body: Lua; it may use what the prelude defines."""
    return Script(_PRELUDE + body.replace("SAME_WORDING", str(SAME_WORDING)))


ADMIT: Final = script(_ADMIT)
PUT: Final = script(_PUT)
USE: Final = script(_USE)
FIND: Final = script(_FIND)
FORGET: Final = script(_FORGET)
