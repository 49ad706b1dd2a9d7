-- Frees slots of a scope and renews others: what one replica has to say of them.
--
-- KEYS    [1] the scope's leases, a sorted set by their end
-- ARGV    [1] now in ms; -1 to take the server's time  [2] slots there are  [3] ms that a lease lasts
--         [4] how many of the following leases are freed; the rest are renewed
-- answer  {used, lost}  used: slots in use; lost: leases that could not be renewed
--
-- A lease that has ended is taken anew if there is room, which heals what a server has lost. Where others have taken
-- the slots meanwhile it stays lost: there are never more leases than slots.
local key = KEYS[1]
local freed = tonumber(ARGV[4])

-- read
local now_ms = tonumber(ARGV[1])
if now_ms < 0 then
  local time = redis.call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local now = string.format('%.0f', now_ms)
local used = redis.call('ZCOUNT', key, '(' .. now, '+inf')
local live = {}
for i = 5, #ARGV do
  live[i] = tonumber(redis.call('ZSCORE', key, ARGV[i]) or 0) > now_ms
end

-- decide
local gone, kept, lost = {}, {}, 0
for i = 5, #ARGV do
  if i < 5 + freed then
    gone[#gone + 1] = ARGV[i]
    used = used - (live[i] and 1 or 0)
  elseif live[i] then
    kept[#kept + 1] = ARGV[i]
  end
end
for i = 5 + freed, #ARGV do
  if not live[i] and used < tonumber(ARGV[2]) then
    kept[#kept + 1] = ARGV[i]
    used = used + 1
  elseif not live[i] then
    lost = lost + 1
  end
end

-- write
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
for _, lease in ipairs(gone) do
  redis.call('ZREM', key, lease)
end
local ends = string.format('%.0f', now_ms + tonumber(ARGV[3]))
for _, lease in ipairs(kept) do
  redis.call('ZADD', key, ends, lease)
end
if #kept > 0 then
  redis.call('PEXPIRE', key, ARGV[3])
end
return { used, lost }
