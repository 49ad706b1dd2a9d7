-- Takes one slot at the first candidate that has room, atomically. A refusal charges nothing.
--
-- KEYS    for each candidate, in the ranking's order: rpm counter, tpm counter, cooldown, trips, probe
-- ARGV    [1] 1 to ask candidates even while they cool down or are on probation, else 0
--         [2] the minute that the keys are named by, in minutes since the epoch; -1 to take it as given
--         [3] a token, should the one taken be on probation  [4] ms that the right to try it lasts
--         then for each candidate: rpm limit, tpm bound (-1: none), tokens to hold; the bound
--         is the limit, or lower where the whole hold must fit: it is taken while less is used
-- answer  {-1, now in ms}                         a counter is missing and the server's minute is another one:
--                                                 ask again with its time. Nothing was charged.
--         {chosen, rpm, tpm, trips, kind, used, ...}
--                                                 chosen: place of the one taken, from 1; 0 if none had room;
--                                                 rpm, tpm: its counters after the charge;
--                                                 trips: of one on probation, which is now ours to try; else 0
--                                                 then for each one passed over a kind and a number:
--                                                 1 cools down for so many ms, 2 rpm used, 3 tpm used,
--                                                 4 on probation and tried by another (the number is 0)
--
-- A counter is only created in the minute that it names, by the server's clock. So its 60 s outlast the minute,
-- and a replica whose clock is a moment behind cannot open a window anew that has just been closed.
local TTL_MS = 60000

-- read
local ignore_cooldown = ARGV[1] == '1'
local minute = tonumber(ARGV[2])
local candidates = #KEYS / 5
local found = redis.call('MGET', unpack(KEYS))

-- decide
local chosen = 0
local passed = {}
local unarmed = {}
local turned_ms = nil
local trips = 0
for i = 1, candidates do
  local key = 5 * i - 4
  local rpm = tonumber(found[key] or 0)
  local tpm = tonumber(found[key + 1] or 0)
  -- Checked before any write: a counter that cannot be raised must not leave the other one charged.
  if not rpm or not tpm or rpm % 1 ~= 0 or tpm % 1 ~= 0 then
    return redis.error_reply('ERR a counter is no whole number')
  end
  local rpm_limit = tonumber(ARGV[3 * i + 2])
  local tpm_limit = tonumber(ARGV[3 * i + 3])
  local cooling_ms = -2
  if found[key + 2] and not ignore_cooldown then
    cooling_ms = redis.call('PTTL', KEYS[key + 2])
  end
  if cooling_ms ~= -2 then
    if cooling_ms == -1 then
      unarmed[#unarmed + 1] = KEYS[key + 2]
      cooling_ms = TTL_MS
    end
    passed[#passed + 1] = 1
    passed[#passed + 1] = cooling_ms
  elseif found[key + 4] and not ignore_cooldown then
    unarmed[#unarmed + 1] = KEYS[key + 4]
    passed[#passed + 1] = 4
    passed[#passed + 1] = 0
  elseif rpm_limit >= 0 and rpm >= rpm_limit then
    unarmed[#unarmed + 1] = KEYS[key]
    passed[#passed + 1] = 2
    passed[#passed + 1] = rpm
  elseif tpm_limit >= 0 and tpm >= tpm_limit then
    unarmed[#unarmed + 1] = KEYS[key + 1]
    passed[#passed + 1] = 3
    passed[#passed + 1] = tpm
  else
    for counter = key, key + 1 do
      if not found[counter] and redis.call('EXISTS', KEYS[counter]) == 1 then
        return redis.error_reply('WRONGTYPE a counter is no number')
      end
    end
    if minute >= 0 and not found[key] then
      local time = redis.call('TIME')
      if math.floor(time[1] / 60) ~= minute then
        turned_ms = time[1] * 1000 + math.floor(time[2] / 1000)
      end
    end
    if not ignore_cooldown then
      trips = tonumber(found[key + 3] or 0) or 1
    end
    chosen = i
    break
  end
end

-- write
local function arm(key)
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, TTL_MS)
  end
end

local answer = { -1, turned_ms }
if not turned_ms then
  local rpm, tpm = 0, 0
  if chosen > 0 then
    local key = 5 * chosen - 4
    local hold = ARGV[3 * chosen + 4]
    rpm = redis.call('INCRBY', KEYS[key], 1)
    arm(KEYS[key])
    tpm = tonumber(found[key + 1] or 0)
    if hold ~= '0' then
      tpm = redis.call('INCRBY', KEYS[key + 1], hold)
      arm(KEYS[key + 1])
    end
    if trips > 0 then
      redis.call('SET', KEYS[key + 4], ARGV[3], 'PX', ARGV[4])
    end
  end
  for _, key in ipairs(unarmed) do
    arm(key)
  end
  answer = { chosen, rpm, tpm, trips, unpack(passed) }
end
return answer
