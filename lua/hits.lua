-- The exact log: its hits are in a key of their own, a string of 12 bytes a hit, oldest first: I7 at_us I5 cost. The entry in
-- the record says how many there are and how many of the first are dead. A log that lost hits has not used them.
--
-- In memory: {used, head, hits} as in the record, then, once opened:
--   key       the log's key
--   seen      times and costs in turn of the stored hits from number `base` on, as far as they were read
--   new       times and costs in turn of hits not stored yet, of which the first is number `first_new`
--   text      instead of all that: the whole log as it shall be
-- Hits are numbered from 0, the dead ones too. Offers:
--   open_hits(x, key)                     gets ready to read
--   look_hits(limit, e, i, cost, key)     used, oldest_us (0: none), wait_us (0: fits, 2^53: never), and how many have died
--   spend_hits(limit, e, i, cost, key, to)  as spend; with write_hits to follow
--   refund_hits(limit, e, i, charge, amount, key)  as refund; with write_hits to follow
--   pack_hits(x)                          before the record is written: takes the dead out of the log, if that is worth it
--   write_hits(x, ttl_ms)                 after it

local NEVER_US = 2^53
local CHUNK_HITS = 100
-- Dead hits are taken out when they are more than half, and at least so many.
local DEAD_HITS_MIN = 64

local function log_range(key, from, to)
  if from >= to then
    return ''
  end
  local range = redis.pcall('GETRANGE', key, from * 12, to * 12 - 1)
  return type(range) == 'string' and range or ''
end

-- Reads on from where `seen` ends.
local function read_chunk(x)
  local seen = x.seen
  local from = x.base + #seen / 2
  local text = log_range(x.key, from, min(from + CHUNK_HITS, x.first_new))
  local at = 1
  for slot = #seen + 1, #seen + #text / 6, 2 do
    seen[slot], seen[slot + 1], at = unbytes('<I7I5', text, at)
  end
end

local function hit(x, number)
  local list, slot = x.seen, (number - x.base) * 2 + 1
  if number >= x.first_new then
    list, slot = x.new, (number - x.first_new) * 2 + 1
  end
  while list == x.seen and slot > #list do
    read_chunk(x)
  end
  return list[slot], list[slot + 1]
end

local function recount(x, stored)
  x[3] = min(x[3], stored)
  x.first_new = x[3]
  if x[2] >= x[3] then
    x[1], x[2], x[3], x.first_new = 0, 0, 0, 0
    x.base = 0
  end
  local used = 0
  for number = x[2], x[3] - 1 do
    local _, cost = hit(x, number)
    used = used + cost
  end
  x[1] = used
end

local function open_hits(x, key)
  if x.key then
    return
  end
  x.key, x.base, x.seen, x.new, x.first_new = key, x[2], {}, {}, x[3]
  local length = redis.pcall('STRLEN', key)
  local stored = type(length) == 'number' and floor_to(length, 12) / 12 or 0
  -- A sum that may have been cut off is none.
  if stored < x[3] or x[1] >= COUNT_MAX then
    recount(x, stored)
  end
end

-- What is used, and the number of the first living hit.
local function living_hits(limit, x, at_us, now)
  local head, hits, used, window_us = x[2], x[3], x[1], limit[5]
  if at_us + window_us <= now then
    return 0, hits
  end
  while head < hits do
    local time, cost = hit(x, head)
    if time + window_us > now then
      break
    end
    head, used = head + 1, used - cost
  end
  return head < hits and max(used, 0) or 0, head
end

local function wait_for_hits(limit, x, used, head, cost, now)
  local room, wait_us = limit[4] - cost, 0
  while used > room and head < x[3] do
    local time, freed = hit(x, head)
    used, head, wait_us = used - freed, head + 1, time + limit[5] - now
  end
  return wait_us
end

local function look_foreign(limit, e, i, cost)
  local used, at_us = foreign_usage(limit, e, i)
  if used == 0 or at_us + limit[5] <= now_us then
    return 0, 0, 0
  end
  return used, at_us, used + cost <= limit[4] and 0 or at_us + limit[5] - max(now_us, at_us)
end

local function look_hits(limit, e, i, cost, key)
  local used, oldest_us, wait_us, head = 0, 0, 0, 0
  if i > 0 and e[i + 1] % 16 ~= 6 then
    used, oldest_us, wait_us = look_foreign(limit, e, i, cost)
  elseif i > 0 then
    local x, at_us = e[i + 3], e[i + 2]
    local now = max(now_us, at_us)
    open_hits(x, key)
    used, head = living_hits(limit, x, at_us, now)
    if head < x[3] then
      oldest_us = hit(x, head)
    end
    wait_us = wait_for_hits(limit, x, used, head, cost, now)
  end
  if cost > limit[4] then
    wait_us = NEVER_US
  end
  return used, oldest_us, wait_us
end

local function replace_hits(limit, e, to, key, at_us, cost)
  cost = min(cost, COUNT_MAX)
  local x = {cost, 0, 1}
  x.key, x.base, x.seen, x.new, x.first_new = key, 0, {}, {at_us, cost}, 0
  e[to + 1], e[to + 2], e[to + 3] = 6 + limit[9], at_us, x
  return at_us + limit[5] - now_us
end

-- The newest hit is changed by storing it anew.
local function take_newest(x)
  local number = x[3] - 1
  if number < x.first_new then
    x.new = {unbytes('<I7I5', log_range(x.key, number, number + 1))}
    x.first_new = number
  end
  return x.new, (number - x.first_new) * 2 + 1
end

local function spend_hits(limit, e, i, cost, key, to)
  if i == 0 then
    return replace_hits(limit, e, to, key, now_us, cost)
  end
  local x, at_us = e[i + 3], e[i + 2]
  if e[i + 1] % 16 ~= 6 then
    local used = look_foreign(limit, e, i, cost)
    local now = foreign_usage(limit, e, i) > 0 and max(now_us, at_us) or now_us
    return replace_hits(limit, e, to, key, now, used + cost)
  end
  local now = max(now_us, at_us)
  open_hits(x, key)
  local used, head = living_hits(limit, x, at_us, now)
  if head >= x[3] then
    return replace_hits(limit, e, to, key, now, cost)
  end
  x[1], x[2] = used + cost, head
  if at_us == now then
    local new, slot = take_newest(x)
    new[slot + 1] = min(new[slot + 1] + cost, COUNT_MAX)
  else
    local slot = (x[3] - x.first_new) * 2 + 1
    x.new[slot], x.new[slot + 1], x[3] = now, cost, x[3] + 1
  end
  e[i + 1], e[i + 2] = 6 + limit[9], now
  return now + limit[5] - now_us
end

local function new_bytes(x)
  local parts = {}
  for number = x.first_new, x[3] - 1 do
    parts[#parts + 1] = pack('<I7I5', hit(x, number))
  end
  return concat(parts)
end

local function pack_hits(x)
  local head, hits = x[2], x[3]
  if not x.text and head > DEAD_HITS_MIN and head * 2 > hits then
    x.text = log_range(x.key, head, x.first_new) .. new_bytes(x)
    x[2], x[3] = 0, hits - head
  end
end

local function write_hits(x, ttl_ms)
  if x.text or x.first_new == 0 then
    call('SET', x.key, x.text or new_bytes(x), 'PX', ttl_ms)
  else
    call('SETRANGE', x.key, x.first_new * 12, new_bytes(x))
    call('PEXPIRE', x.key, ttl_ms)
  end
end

-- The number of the first hit in a text that is not before a time.
local function first_from(text, at_us)
  local low, high = 0, #text / 12
  while low < high do
    local middle = floor_to((low + high) / 2, 1)
    if unbytes('<I7', text, middle * 12 + 1) < at_us then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Takes up to an amount from the hits that may hold a charge, in a text; gives the text, and what was taken.
local function take_from(text, charged_us, amount)
  local first = first_from(text, charged_us)
  local at, left, kept = first * 12 + 1, amount, {sub(text, 1, first * 12)}
  while left > 0 and at <= #text do
    local time, cost, after = unbytes('<I7I5', text, at)
    local taken = min(left, cost)
    left, at = left - taken, after
    if cost > taken then
      kept[#kept + 1] = pack('<I7I5', time, cost - taken)
    end
    if time > charged_us then
      break
    end
  end
  kept[#kept + 1] = sub(text, at)
  return concat(kept), amount - left
end

local function refund_hits(limit, e, i, charge, amount, key)
  local at_us, x = e[i + 2], e[i + 3]
  if not x or e[i + 1] % 16 ~= 6 or charge.at_us + limit[5] <= max(now_us, at_us) then
    return 0, false
  end
  open_hits(x, key)
  local text, returned = take_from(x.text or log_range(key, x[2], x[3]), charge.at_us, amount)
  if returned == 0 then
    return 0, false
  end
  x.text, x[1], x[2], x[3] = text, max(x[1] - returned, 0), 0, #text / 12
  e[i + 1] = 6 + limit[9]
  if #text > 0 then
    e[i + 2] = unbytes('<I7', text, #text - 11)
  end
  if #text == 0 or e[i + 2] + limit[5] <= now_us then
    e[i + 3] = false
  end
  return returned, true
end
