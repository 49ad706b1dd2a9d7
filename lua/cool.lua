-- Takes a deployment out for a time. Extends a running cooldown, never shortens it.
--
-- KEYS    [1] the deployment's cooldown
-- ARGV    [1] what to write there  [2] for how many ms
-- answer  1 if it was written, 0 if the running one ends no earlier
local key = KEYS[1]
local length_ms = tonumber(ARGV[2])

-- read
local left_ms = redis.call('PTTL', key)

-- decide: a cooldown without an end (-1) would last for ever, so ours replaces it
local extends = left_ms < length_ms

-- write
if extends then
  redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return extends and 1 or 0
