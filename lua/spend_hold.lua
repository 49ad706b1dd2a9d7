-- Holds money on several accounts at once, or on none, atomically; and ends holds there whose lease has run out.
--
-- KEYS    [1] the ids of holds that have ended
--         then for each account: spent, held in all, estimated part of spent, holds (id -> amount:stage), their due times
-- ARGV    [1] now in ms; -1 to take the server's time  [2] the hold's id  [3] ms until its lease ends
--         [4] its stage, u or s  [5] 1 to admit only what fits wholly, else 0  [6] holds to end on each account at most
--         [7] ms that an estimate is remembered
--         then for each account: limit (-1: none), amount, ms that its keys are kept
-- answer  {refused, spent, held, estimated, ...}  refused: place of the account that had no room, from 1; 0 if all
--                                                 had. The counters of each account as they are now.
--
-- Stages: u not sent (given back when its lease ends), s sent (charged then), e charged as an estimate: no longer a
-- hold, remembered for the settling that may still come. `held` is at any time the sum of the amounts in u and s.
-- An id that is held already is held no more (only its stage may become s), and one that has ended not again: so a call
-- of unknown outcome can be asked once more, and one that arrives late does nothing. Every write sets its key's time to
-- live anew: what is in use is kept.
local KEYS_EACH = 5
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
  local key, arg, counter = KEYS_EACH * (i - 1) + 2, 3 * (i - 1) + 8, 3 * i - 2
  local account = {
    spent_key = KEYS[key], held_key = KEYS[key + 1], estimated_key = KEYS[key + 2],
    holds_key = KEYS[key + 3], due_key = KEYS[key + 4],
    limit = tonumber(ARGV[arg]), amount = tonumber(ARGV[arg + 1]), kept_ms = tonumber(ARGV[arg + 2]),
    spent = tonumber(found[counter] or 0) or 0,
    held = tonumber(found[counter + 1] or 0) or 0,
    estimated = tonumber(found[counter + 2] or 0) or 0,
    entry = redis.call('HGET', KEYS[key + 3], id),
    due = redis.call('ZRANGEBYSCORE', KEYS[key + 4], '-inf', whole(now_ms), 'LIMIT', 0, ARGV[6]),
    entries = {},
  }
  if #account.due > 0 then
    account.entries = redis.call('HMGET', account.holds_key, unpack(account.due))
  end
  accounts[i] = account
end

-- decide
local refused = 0
for i, account in ipairs(accounts) do
  account.gone, account.charged, account.old_held = {}, {}, account.held
  account.added = 0
  for n, due_id in ipairs(account.due) do
    local amount, stage = string.match(account.entries[n] or '', '^(%d+):(%a)$')
    amount = tonumber(amount or 0)
    if stage == 's' then
      account.charged[#account.charged + 1] = { due_id, whole(amount) .. ':e' }
      account.added = account.added + amount
    else
      account.gone[#account.gone + 1] = due_id
      account.entry = due_id ~= id and account.entry
    end
    if stage == 's' or stage == 'u' then
      account.held = math.max(account.held - amount, 0)
    end
  end
  account.spent = account.spent + account.added
  account.estimated = account.estimated + account.added
  account.takes = not account.entry and not has_ended
  if refused == 0 and account.takes and account.limit >= 0 then
    local used = account.spent + account.held
    local fits = used < account.limit
    if ARGV[5] == '1' then
      fits = used + account.amount <= account.limit
    end
    refused = fits and 0 or i
  end
end

-- write
local function put(key, value, account)
  redis.call('SET', key, whole(value), 'PX', whole(account.kept_ms))
end

local answer = { refused }
for _, account in ipairs(accounts) do
  for _, due_id in ipairs(account.gone) do
    redis.call('HDEL', account.holds_key, due_id)
    redis.call('ZREM', account.due_key, due_id)
  end
  for _, charge in ipairs(account.charged) do
    redis.call('HSET', account.holds_key, charge[1], charge[2])
    redis.call('ZADD', account.due_key, whole(now_ms + tonumber(ARGV[7])), charge[1])
  end
  if account.added > 0 then
    put(account.spent_key, account.spent, account)
    put(account.estimated_key, account.estimated, account)
  end
  local takes = account.takes and refused == 0
  if takes then
    account.held = account.held + account.amount
    redis.call('HSET', account.holds_key, id, whole(account.amount) .. ':' .. ARGV[4])
    redis.call('ZADD', account.due_key, whole(now_ms + tonumber(ARGV[3])), id)
  end
  local amount_unsent = string.match(account.entry or '', '^(%d+):u$')
  if amount_unsent and ARGV[4] == 's' then
    redis.call('HSET', account.holds_key, id, amount_unsent .. ':s')
    redis.call('ZADD', account.due_key, 'GT', whole(now_ms + tonumber(ARGV[3])), id)
  end
  if takes or #account.charged > 0 then
    redis.call('PEXPIRE', account.holds_key, whole(account.kept_ms))
    redis.call('PEXPIRE', account.due_key, whole(account.kept_ms))
  end
  if account.held ~= account.old_held then
    if account.held > 0 then
      put(account.held_key, account.held, account)
    else
      redis.call('DEL', account.held_key)
    end
  end
  answer[#answer + 1] = account.spent
  answer[#answer + 1] = account.held
  answer[#answer + 1] = account.estimated
end
return answer
