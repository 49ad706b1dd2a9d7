-- Appends samples to texts of samples and keeps the last ones.
--
-- KEYS    the texts; each holds samples with a space between, oldest first
-- ARGV    for each key: how many to keep, the samples to append
-- answer  how many keys were written
--
-- What stands there and is no such text (another type, or longer than any that was written here) is replaced.
local TTL_MS = 3600000
local SAMPLE_BYTES_MAX = 64

-- read
local found = redis.call('MGET', unpack(KEYS))

-- decide
local texts = {}
for i = 1, #KEYS do
  local keep = tonumber(ARGV[2 * i - 1])
  local before = found[i] or ''
  if #before > keep * SAMPLE_BYTES_MAX then
    before = ''
  end
  local samples = {}
  for sample in string.gmatch(before .. ' ' .. ARGV[2 * i], '[^ ]+') do
    samples[#samples + 1] = sample
  end
  texts[i] = table.concat(samples, ' ', math.max(1, #samples - keep + 1))
end

-- write
for i, key in ipairs(KEYS) do
  redis.call('SET', key, texts[i], 'PX', TTL_MS)
end
return #KEYS
