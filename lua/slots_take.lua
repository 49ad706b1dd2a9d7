-- Takes one of a scope's slots, if one is free.
--
-- KEYS    [1] the scope's leases, a sorted set by their end
-- ARGV    [1] now in ms; -1 to take the server's time  [2] the lease  [3] slots there are  [4] ms that a lease lasts
-- answer  {granted, used}  granted: 1 or 0; used: slots in use, this one included
--
-- Leases end by the server's clock alone. A lease that holds a slot keeps it, so a call of unknown outcome can be asked
-- once more.
local key = KEYS[1]

-- read
local now_ms = tonumber(ARGV[1])
if now_ms < 0 then
  local time = redis.call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local now = string.format('%.0f', now_ms)
local used = redis.call('ZCOUNT', key, '(' .. now, '+inf')
local ends_ms = tonumber(redis.call('ZSCORE', key, ARGV[2]) or 0)

-- decide
local is_held = ends_ms > now_ms
local granted = is_held or used < tonumber(ARGV[3])
if granted and not is_held then
  used = used + 1
end

-- write
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
if granted then
  redis.call('ZADD', key, string.format('%.0f', now_ms + tonumber(ARGV[4])), ARGV[2])
  redis.call('PEXPIRE', key, ARGV[4])
end
return { granted and 1 or 0, used }
