-- Extends the lease of a hold on all its accounts, and notes that its call was sent. Never shortens a lease.
--
-- KEYS    for each account: held in all, holds (id -> amount:stage), their due times
-- ARGV    [1] now in ms; -1 to take the server's time  [2] the hold's id  [3] ms until its lease ends
--         [4] 1 if its call was sent, else 0
--         then for each account: ms that its keys are kept
-- answer  on how many accounts it was still held
--
-- A hold that has ended, by its settling or by its lease, is left alone. See spend_hold.lua for the stages.
local KEYS_EACH = 3
local id = ARGV[2]

local function whole(number)
  return string.format('%.0f', number)
end

-- read
local now_ms = tonumber(ARGV[1])
if now_ms < 0 then
  local time = redis.call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local found = {}
for i = 1, #KEYS / KEYS_EACH do
  local entry = redis.pcall('HGET', KEYS[KEYS_EACH * i - 1], id)
  local due = redis.pcall('ZSCORE', KEYS[KEYS_EACH * i], id)
  found[i] = { entry = type(entry) == 'string' and entry or '', due_ms = type(due) == 'string' and tonumber(due) }
end

-- decide
local due_ms = now_ms + tonumber(ARGV[3])
for _, account in ipairs(found) do
  local amount, stage = string.match(account.entry, '^(%d+):([us])$')
  if amount and account.due_ms then
    account.stage = ARGV[4] == '1' and 's' or stage
    account.amount = amount
    account.until_ms = math.max(account.due_ms, due_ms)
  end
end

-- write
local held = 0
for i, account in ipairs(found) do
  if account.stage then
    held = held + 1
    redis.call('HSET', KEYS[KEYS_EACH * i - 1], id, account.amount .. ':' .. account.stage)
    redis.call('ZADD', KEYS[KEYS_EACH * i], whole(account.until_ms), id)
    local kept_ms = tonumber(ARGV[4 + i])
    for key = KEYS_EACH * i - 2, KEYS_EACH * i do
      if redis.call('PTTL', KEYS[key]) < kept_ms then
        redis.call('PEXPIRE', KEYS[key], whole(kept_ms))
      end
    end
  end
end
return held
