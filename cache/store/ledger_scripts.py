"""What people say of entries, inside Redis. The scripts share the prelude and the keys of `cache.store.scripts`.

In the order of a counter in :meta (notes):
    :q:<id>            hash: an entry out of service, as above, with r (reason), t (time), w (whose); only these three
                       where it was barred before it came.  :quarantine lists them
    :label             hash: <entry>:<principal> → [label, comment].  :labels lists them
    :bad:<entry>       set: the principals that call it wrong.  :review: those entries, by the latest time
    :hidden            sorted set: <entry>:<session>:<tenant>
    :t:<receipt>       the id of the entry that a turn was answered from; expires with it.  :receipts lists them
    :p:<place>         sorted set: who asked this question, by time.  :places: <place>:<tenant>
"""

from typing import Final

from cache.store.scripts import ADMIT, FIND, FORGET, PUT, USE, script

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
        fits = matches(m, want) and (not want.expired_by or (given(m[14]) and m[14] <= want.expired_by))
    elseif found[2] then
        fits = (not want.tenant or want.tenant == found[2])
            and not (want.model or want.scope or want.tag or want.unless or want.before)
            and not (want.expired_by and want.expired_by < 1e300)
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

QUARANTINE: Final = script(_QUARANTINE)
ERASE: Final = script(_ERASE)
RELEASE: Final = script(_RELEASE)
LABEL: Final = script(_LABEL)
LOSE: Final = script(_LOSE)
ASKED: Final = script(_ASKED)
NOTE: Final = script(_NOTE)
RECEIPTS: Final = script(_RECEIPTS)
SCRIPTS: Final = (ADMIT, PUT, USE, FIND, FORGET, QUARANTINE, ERASE, RELEASE, LABEL, LOSE, ASKED, NOTE, RECEIPTS)
