-- Ends a hold on all its accounts at what its call cost; once, however often it is told.
--
-- KEYS    [1] the ids of holds that have ended
--         then for each account: spent, held in all, estimated part of spent, holds (id -> amount:stage), their due times
-- ARGV    [1] the hold's id  [2] ms that its end is remembered
--         then for each account: cost, ms that its keys are kept
-- answer  {ended, spent, held, estimated, ...}  ended: 1 if this ended it, 0 if it had ended before. The counters of
--                                               each account as they are now.
--
-- Where no hold is found (it was given back, or taken while Redis was away) the cost counts alone; where it was charged
-- as an estimate the cost replaces that. See spend_hold.lua for the stages. A counter that is no number counts as
-- nothing and is replaced: an error would end the script between two accounts, and it would be told again and again.
local KEYS_EACH = 5
local id = ARGV[1]

local function whole(number)
  return string.format('%.0f', number)
end

-- read
local has_ended = redis.call('HEXISTS', KEYS[1], id) == 1
local counters = {}
for key = 2, #KEYS, KEYS_EACH do
  for counter = key, key + 2 do
    counters[#counters + 1] = KEYS[counter]
  end
end
local found = redis.call('MGET', unpack(counters))
local accounts = {}
for i = 1, (#KEYS - 1) / KEYS_EACH do
  local key, arg, counter = KEYS_EACH * (i - 1) + 2, 2 * (i - 1) + 3, 3 * i - 2
  local entry = redis.pcall('HGET', KEYS[key + 3], id)
  accounts[i] = {
    spent_key = KEYS[key], held_key = KEYS[key + 1], estimated_key = KEYS[key + 2],
    holds_key = KEYS[key + 3], due_key = KEYS[key + 4],
    cost = tonumber(ARGV[arg]), kept_ms = tonumber(ARGV[arg + 1]),
    spent = tonumber(found[counter] or 0) or 0,
    held = tonumber(found[counter + 1] or 0) or 0,
    estimated = tonumber(found[counter + 2] or 0) or 0,
    entry = type(entry) == 'string' and entry or '',
  }
end

-- decide
for _, account in ipairs(accounts) do
  if not has_ended then
    local amount, stage = string.match(account.entry, '^(%d+):(%a)$')
    amount = tonumber(amount or 0)
    account.was = { account.spent, account.held, account.estimated }
    if stage == 'e' then
      account.spent = math.max(account.spent - amount, 0)
      account.estimated = math.max(account.estimated - amount, 0)
    elseif stage then
      account.held = math.max(account.held - amount, 0)
    end
    account.spent = account.spent + account.cost
  end
end

-- write
local function put(key, value, was, account)
  if value > 0 and value ~= was then
    redis.call('SET', key, whole(value), 'PX', whole(account.kept_ms))
  elseif value ~= was then
    redis.call('DEL', key)
  end
end

local answer = { has_ended and 0 or 1 }
for _, account in ipairs(accounts) do
  if account.was then
    put(account.spent_key, account.spent, account.was[1], account)
    put(account.held_key, account.held, account.was[2], account)
    put(account.estimated_key, account.estimated, account.was[3], account)
    if account.entry ~= '' then
      redis.call('HDEL', account.holds_key, id)
      redis.pcall('ZREM', account.due_key, id)
    end
  end
  answer[#answer + 1] = account.spent
  answer[#answer + 1] = account.held
  answer[#answer + 1] = account.estimated
end
if not has_ended then
  redis.call('HSET', KEYS[1], id, '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return answer
