-- Applies many changes to counters at once.
--
-- KEYS    the counters
-- ARGV    for each key its change, a whole number
-- answer  how many keys were changed
--
-- An increase creates the counter with its 60 s. A decrease never creates one and never goes below 0. A key that
-- is no counter is left alone: an error here would end the script between two keys, and the caller, who takes an
-- error for "nothing was written", would ask again for the first. A server that takes no writes (READONLY, OOM)
-- refuses the first already, and then the error is the answer.
local TTL_MS = 60000

-- read
local found = redis.call('MGET', unpack(KEYS))

-- decide
local changes = {}
for i = 1, #KEYS do
  local change = tonumber(ARGV[i])
  if change < 0 then
    change = -math.min(-change, math.max(tonumber(found[i] or 0) or 0, 0))
  end
  changes[i] = change
end

-- write
local changed = 0
for i, key in ipairs(KEYS) do
  local answer = changes[i] ~= 0 and redis.pcall('INCRBY', key, string.format('%.0f', changes[i]))
  local refused = type(answer) == 'table' and answer.err or ''
  local is_no_counter = string.find(refused, 'WRONGTYPE') or string.find(refused, 'integer') or string.find(refused, 'overflow')
  if refused ~= '' and changed == 0 and not is_no_counter then
    -- Redis 6.2 puts the script's line before the code.
    return redis.error_reply(string.match(refused, '%u%u%u+ .*') or refused)
  end
  if type(answer) == 'number' then
    if redis.call('PTTL', key) == -1 then
      redis.call('PEXPIRE', key, TTL_MS)
    end
    changed = changed + 1
  end
end
return changed
