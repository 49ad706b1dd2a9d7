-- Renews the right to try a deployment on probation while the try runs.
--
-- KEYS    [1] the deployment's trips  [2] the probe
-- ARGV    [1] token  [2] ms that the right lasts
-- answer  1 if the right is ours, else 0
--
-- A right that ran out (the server was away, say) is taken again if nobody has it and the probation still lasts.

-- read
local trips = redis.call('EXISTS', KEYS[1])
local holder = redis.call('GET', KEYS[2])

-- decide
local ours = holder == ARGV[1] or (not holder and trips == 1)

-- write
if ours then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
return ours and 1 or 0
