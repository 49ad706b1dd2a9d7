-- Takes a deployment out for a time. Extends a running cooldown, never shortens it.
--
-- KEYS    [1] the deployment's cooldown  [2] its trips  [3] the probe
-- ARGV    [1] what to write there  [2] for how many ms
--         [3] 0 if it ends without probation, 1 if in probation, 2 if it is a further trip as well  [4] ms that the trips outlive the cooldown
--         [5] token of the probe that failed, or nothing
-- answer  1 if the cooldown was written, 0 if the running one ends no earlier
--
-- A deployment that was cooling already has not tripped again: so calls that were under way together count as one
-- trip, and asking twice changes nothing.
local length_ms = tonumber(ARGV[2])
local probation = ARGV[3] ~= '0'
local further = ARGV[3] == '2'

-- read
local left_ms = redis.call('PTTL', KEYS[1])
local trips_left_ms = redis.call('PTTL', KEYS[2])
local holder = redis.call('GET', KEYS[3])

-- decide: a cooldown without an end (-1) would last for ever, so ours replaces it
local extends = left_ms < length_ms
local trips = probation and (trips_left_ms == -2 or (further and left_ms == -2))
local trips_ms = math.max(left_ms, length_ms) + tonumber(ARGV[4])

-- write
if extends then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if trips and type(redis.pcall('INCRBY', KEYS[2], 1)) ~= 'number' then
  redis.call('SET', KEYS[2], '1', 'PX', string.format('%.0f', trips_ms))
end
if probation and trips_left_ms < trips_ms then
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f', trips_ms))
end
if ARGV[5] ~= '' and holder == ARGV[5] then
  redis.call('DEL', KEYS[3])
end
return extends and 1 or 0
