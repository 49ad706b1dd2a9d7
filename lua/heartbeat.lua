-- Says that a replica lives, forgets those that do not, and tells the server's time and the epoch of its memory.
--
-- KEYS    [1] the replicas, a sorted set by the time of their last beat  [2] the epoch
-- ARGV    [1] this replica  [2] ms after which a silent one is forgotten  [3] ms that the set outlives all beats
--         [4] ms that the epoch outlives all beats
-- answer  {the replicas alive, seconds, microseconds, epoch}
--
-- Beats are counted by the server's clock alone, so no replica's clock can bury another. The epoch outlives every
-- counter; so if it is another one than before, the counters that were there are gone.

-- read
local time = redis.call('TIME')
local epoch = redis.call('GET', KEYS[2])

-- decide
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local silent_since_ms = now_ms - tonumber(ARGV[2])
epoch = epoch or (ARGV[1] .. ':' .. time[1] .. ':' .. time[2])

-- write
redis.call('ZADD', KEYS[1], now_ms, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', silent_since_ms))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], epoch, 'PX', ARGV[4])
return { redis.call('ZRANGE', KEYS[1], 0, -1), tonumber(time[1]), tonumber(time[2]), epoch }
