-- A call of a deployment on probation has come to something, or the right to try it is given back.
--
-- KEYS    [1] the deployment's cooldown  [2] its trips  [3] the probe
-- ARGV    [1] token to give back, or nothing
--         [2] 0 if no call succeeded, 1 if one did, 2 if the one that had the right did
--         [3] ms since that call began  [4] ms that the trips outlive the cooldown
-- answer  1 if the probation is over, else 0
--
-- Whoever had the right has begun after the cooldown. Of any other call the trips' time to live tells it: it
-- outlasts the cooldown by a known time, and so shows how long ago that ended.

-- read
local cooling = redis.call('EXISTS', KEYS[1]) == 1
local trips_left_ms = redis.call('PTTL', KEYS[2])
local holder = redis.call('GET', KEYS[3])

-- decide
local ours = ARGV[1] ~= '' and holder == ARGV[1]
local ended_ms = tonumber(ARGV[4]) - trips_left_ms
local passed = ours and ARGV[2] == '2'
local over = not cooling and (passed or (ARGV[2] ~= '0' and tonumber(ARGV[3]) <= ended_ms))

-- write
if over then
  redis.call('DEL', KEYS[2])
end
if ours or over then
  redis.call('DEL', KEYS[3])
end
return over and 1 or 0
