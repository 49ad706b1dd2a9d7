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
-- as an estimate the cost replaces that. See spend_hold.lua for the stages. An account whose keys are of a wrong type
-- is left alone: an error here would end the script between two accounts, and it would be told again and again.
local KEYS_EACH = 5
local id = ARGV[1]

local function whole(number)
  return string.format('%.0f', number)
end

local function number_at(key)
  local found = redis.pcall('GET', key)
  return type(found) ~= 'table' and tonumber(found or 0) or nil
end

-- read
local has_ended = redis.call('HEXISTS', KEYS[1], id) == 1
local accounts = {}
for i = 1, (#KEYS - 1) / KEYS_EACH do
  local key, arg = KEYS_EACH * (i - 1) + 2, 2 * (i - 1) + 3
  local entry = redis.pcall('HGET', KEYS[key + 3], id)
  local due = redis.pcall('ZSCORE', KEYS[key + 4], id)
  local account = {
    spent_key = KEYS[key], held_key = KEYS[key + 1], estimated_key = KEYS[key + 2],
    holds_key = KEYS[key + 3], due_key = KEYS[key + 4],
    cost = tonumber(ARGV[arg]), kept_ms = tonumber(ARGV[arg + 1]),
    spent = number_at(KEYS[key]), held = number_at(KEYS[key + 1]), estimated = number_at(KEYS[key + 2]),
    entry = type(entry) == 'string' and entry or '',
  }
  account.is_whole = account.spent and account.held and account.estimated
    and type(entry) ~= 'table' and type(due) ~= 'table'
  accounts[i] = account
end

-- decide
for _, account in ipairs(accounts) do
  if account.is_whole and not has_ended then
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
local function arm(key, kept_ms)
  if redis.call('PTTL', key) < kept_ms then
    redis.call('PEXPIRE', key, whole(kept_ms))
  end
end

local function put(key, value, was, account)
  if value ~= was then
    redis.call('SET', key, whole(value), 'KEEPTTL')
    arm(key, account.kept_ms)
  end
end

local answer = { has_ended and 0 or 1 }
for _, account in ipairs(accounts) do
  if account.was then
    put(account.spent_key, account.spent, account.was[1], account)
    if account.held > 0 then
      put(account.held_key, account.held, account.was[2], account)
    else
      redis.call('DEL', account.held_key)
    end
    if account.estimated > 0 then
      put(account.estimated_key, account.estimated, account.was[3], account)
    else
      redis.call('DEL', account.estimated_key)
    end
    redis.call('HDEL', account.holds_key, id)
    redis.call('ZREM', account.due_key, id)
  end
  answer[#answer + 1] = account.spent or 0
  answer[#answer + 1] = account.held or 0
  answer[#answer + 1] = account.estimated or 0
end
if not has_ended then
  redis.call('HSET', KEYS[1], id, '1')
  arm(KEYS[1], tonumber(ARGV[2]))
end
return answer
