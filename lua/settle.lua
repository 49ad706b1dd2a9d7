-- Applies many changes to counters at once.
--
-- KEYS    the counters
-- ARGV    for each key its change, a whole number
-- answer  how many keys were changed
--
-- An increase creates the counter with its 60 s. A decrease never creates one and never goes below 0. A key that
-- is no counter is left alone: an error here would end the script between two keys, and the caller, who takes an
-- error for "nothing was written", would ask again for the first.
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
  local is_counter = changes[i] ~= 0
    and type(redis.pcall('INCRBY', key, string.format('%.0f', changes[i]))) == 'number'
  if is_counter then
    if redis.call('PTTL', key) == -1 then
      redis.call('PEXPIRE', key, TTL_MS)
    end
    changed = changed + 1
  end
end
return changed
