-- The algorithms: what fits, what a spend and a refund do to an entry. The same arithmetic on the same doubles as
-- crates/core/src/algorithm, to the last bit; no figures, which the caller works out from what the records held.
--
-- A limit: {id, kind, life, capacity, window_us, a, b, full, life_mark}. Bucket: a is its unit (units a token), b its rate
-- (units a us), full is capacity x unit. Groups: a is the size of a group. Offers:
--   read_limits(text)            ARGV[2], n x (I5 id, B kind, B life, d capacity, d window_us, d a, d b), as limits
--   fits(limit, e, i, cost)      whether a cost fits the entry at slot i (0: none) now
--   spend(limit, e, i, cost, to) records it, fitting or not, in slot `to`, which is i where there is an entry;
--                                how long in us the entry will matter from now
--   refund(limit, e, i, charge, amount)  returns part of a charge: whole tokens, and whether anything changed
--   lasts_us(limit, e, i)        how long an entry will matter from now; 0 or less: it is dead
-- Hits are not among them: hits.lua.

local function read_limits(text)
  local limits, at = {}, 1
  for n = 1, #text / 39 do
    local limit = {unbytes('<I5BBdddd', text, at)}
    limit[8], limit[9] = limit[4] * limit[6], limit[3] * 65536 + 2^24
    limits[n] = limit
    at = at + 39
  end
  return limits
end

local function min(a, b)
  return a < b and a or b
end

local function max(a, b)
  return a > b and a or b
end

local function floor_to(number, step)
  return number - number % step
end

-- What is in use of groups at a time, and how many dead ones come first. Time never runs backwards for a counter, so the
-- newest is never in the future.
local function living(groups, kind, at_us, window_us, now)
  local n, used, dead = groups[3], groups[2], 0
  if at_us + window_us <= now then
    return 0, n + 1
  end
  if n == 0 or groups[4] + window_us > now then
    return used, 0
  end
  local source, at = groups[5], groups[6]
  local format = kind == 4 and '<I6I2' or '<I6I5'
  local left = 0
  for older = 1, n do
    local time, count
    time, count, at = unbytes(format, source, at)
    if at_us - (at_us - time) % 2^48 + window_us <= now then
      used, dead = used - count, dead + 1
    elseif groups[2] >= COUNT_MAX then
      left = left + count
    else
      break
    end
  end
  -- A sum that may have been cut off is no sum to subtract from.
  if groups[2] >= COUNT_MAX then
    used = left + groups[1]
  end
  return max(used, groups[1]), dead
end

-- Usage in terms every algorithm understands: so much, last at that time; clamped to the limit's capacity.
local function foreign_usage(limit, e, i)
  local kind, payload = e[i + 1] % 16, e[i + 3]
  local used
  if kind == 1 then
    used = math.ceil(payload)
  elseif kind == 2 then
    used = payload
  elseif kind == 3 then
    used = payload[1] + payload[2]
  elseif kind == 6 then
    used = payload[1]
  else
    used = living(payload, kind, e[i + 2], limit[5], now_us)
  end
  return min(used, limit[4]), e[i + 2]
end

local function units_at(limit, level, at_us, now)
  local units = level * limit[6]
  if units < 2^52 then
    -- Rounds to the nearest whole number, ties to even.
    units = units + 2^52 - 2^52
  end
  units = min(units, limit[8])
  if now > at_us then
    units = units - (now - at_us) * limit[7]
  end
  return max(units, 0)
end

-- A bucket's level, time and refunds; a new one starts its count of refunds somewhere else, so that charges of a forgotten
-- one do not fit it.
local function bucket_of(limit, e, i)
  if i > 0 then
    local mark = e[i + 1]
    if mark % 16 == 1 then
      return e[i + 3], e[i + 2], (mark % 65536 - 1) / 16
    end
    local used, at_us = foreign_usage(limit, e, i)
    if used > 0 then
      return used, at_us, 0
    end
  end
  return 0, 0, now_us % 4096
end

local function window_of(limit, e, i)
  local kind, used, at_us = 2, 0, now_us
  if i > 0 then
    kind = e[i + 1] % 16
    if kind == 2 then
      used, at_us = e[i + 3], e[i + 2]
    elseif kind == 6 then
      used, at_us = e[i + 3][1], e[i + 2]
    else
      used, at_us = foreign_usage(limit, e, i)
    end
  end
  local now = used > 0 and max(now_us, at_us) or now_us
  if floor_to(now, limit[5]) ~= floor_to(at_us, limit[5]) then
    used = 0
  end
  return used, now
end

-- Both counts as seen from now.
local function pair_of(limit, e, i)
  local current, previous, at_us = 0, 0, now_us
  if i > 0 and e[i + 1] % 16 == 3 then
    current, previous, at_us = e[i + 3][1], e[i + 3][2], e[i + 2]
  elseif i > 0 then
    current, at_us = foreign_usage(limit, e, i)
    if current == 0 then
      at_us = now_us
    end
    current = min(current, 2^32 - 1)
  end
  local now, window_us = max(now_us, at_us), limit[5]
  local passed_us = floor_to(now, window_us) - floor_to(at_us, window_us)
  if passed_us == window_us then
    return 0, current, now
  elseif passed_us > 0 then
    return 0, 0, now
  end
  return current, previous, now
end

-- a x b modulo 2^32, for a below 2^32.
local function low_32(a, b)
  local low = b % 2^16
  return (a * ((b % 2^32 - low) / 2^16) % 2^16 * 2^16 + a * low) % 2^32
end

-- a x b <= c x d without rounding. Rounded products keep their order, so only equal ones need a closer look: those differ by
-- less than 2^31, and their lowest bits tell by how much.
local function product_at_most(a, b, c, d)
  local left, right = a * b, c * d
  if left ~= right or left < 2^53 then
    return left <= right
  end
  local over = (low_32(a, b) - low_32(c, d)) % 2^32
  return over == 0 or over >= 2^31
end

local function pair_fits(limit, e, i, cost)
  local current, previous, now = pair_of(limit, e, i)
  local room = limit[4] - current - cost
  if room < 0 or previous == 0 then
    return room >= 0
  end
  local window_us = limit[5]
  return product_at_most(previous, window_us - now % window_us, room, window_us)
end

local function groups_fit(limit, e, i, cost)
  local kind, at_us, used = e[i + 1] % 16, e[i + 2]
  if kind == 4 or kind == 5 then
    used = living(e[i + 3], kind, at_us, limit[5], max(now_us, at_us))
  else
    used = foreign_usage(limit, e, i)
    if at_us + limit[5] <= now_us then
      used = 0
    end
  end
  return used + cost <= limit[4]
end

local function fits(limit, e, i, cost)
  if cost > limit[4] then
    return false
  end
  if i == 0 then
    return true
  end
  local kind = limit[2]
  if kind == 1 then
    local level, at_us = bucket_of(limit, e, i)
    return units_at(limit, level, at_us, now_us) <= (limit[4] - cost) * limit[6]
  elseif kind == 2 then
    return window_of(limit, e, i) + cost <= limit[4]
  elseif kind == 3 then
    return pair_fits(limit, e, i, cost)
  end
  return groups_fit(limit, e, i, cost)
end

local function widen(groups)
  local parts, at = {}, groups[6]
  for older = 1, groups[3] do
    local time, count
    time, count, at = unbytes('<I6I2', groups[5], at)
    parts[older] = pack('<I6I5', time, count)
  end
  groups[5], groups[6] = concat(parts), 1
end

-- Puts the newest group among the older ones; gives the kind that now holds them.
local function push_newest(groups, kind, at_us)
  if kind == 4 and groups[1] > 65535 then
    widen(groups)
    kind = 5
  end
  local n, from, bytes_each = groups[3], groups[6], kind == 4 and 8 or 11
  local newest = pack(kind == 4 and '<I6I2' or '<I6I5', at_us % 2^48, groups[1])
  groups[5], groups[6] = sub(groups[5], from, from + n * bytes_each - 1) .. newest, 1
  if n == 0 then
    groups[4] = at_us
  end
  groups[3] = n + 1
  return kind
end

-- Forgets so many of the older groups; `used` is what the rest holds.
local function drop_oldest(groups, kind, at_us, dead, used)
  local n, from = groups[3] - dead, groups[6] + dead * (kind == 4 and 8 or 11)
  groups[2], groups[3], groups[6] = used, n, from
  groups[4] = n > 0 and at_us - (at_us - unbytes('<I6', groups[5], from)) % 2^48 or at_us
end

local function replace_groups(limit, e, i, at_us, count)
  count = min(count, COUNT_MAX)
  e[i + 1], e[i + 2], e[i + 3] = 4 + limit[9], at_us, {count, count, 0, at_us, '', 1}
end

local function spend_groups(limit, e, i, cost, to)
  if i == 0 then
    return replace_groups(limit, e, to, now_us, cost)
  end
  local kind, at_us, groups = e[i + 1] % 16, e[i + 2], e[i + 3]
  local now = max(now_us, at_us)
  if kind ~= 4 and kind ~= 5 then
    local used = foreign_usage(limit, e, i)
    if used == 0 then
      now = now_us
    elseif at_us + limit[5] <= now then
      used = 0
    end
    return replace_groups(limit, e, i, now, used + cost)
  end
  local used, dead = living(groups, kind, at_us, limit[5], now)
  local alive = groups[3] + 1 - dead
  if alive == 0 then
    return replace_groups(limit, e, i, now, cost)
  end
  if dead > 0 then
    drop_oldest(groups, kind, at_us, dead, used)
  end
  local count = groups[1]
  if alive >= 65 or count + cost <= limit[6] then
    local joined = min(count + cost, COUNT_MAX)
    groups[1], groups[2] = joined, groups[2] + joined - count
  else
    kind = push_newest(groups, kind, at_us)
    groups[1], groups[2] = cost, groups[2] + cost
  end
  if groups[3] == 0 then
    kind, groups[4] = 4, now
  end
  e[i + 1], e[i + 2] = kind + limit[9], now
end

local function lasts_us(limit, e, i)
  local kind, at_us, window_us = limit[2], e[i + 2], limit[5]
  if kind == 1 then
    local wait_us = units_at(limit, e[i + 3], at_us, at_us) / limit[7]
    return at_us + (wait_us + -wait_us % 1) - now_us
  elseif kind == 2 then
    return floor_to(at_us, window_us) + window_us - now_us
  elseif kind == 3 then
    return floor_to(at_us, window_us) + (e[i + 3][1] > 0 and 2 or 1) * window_us - now_us
  end
  return at_us + window_us - now_us
end

local function spend(limit, e, i, cost, to)
  local kind, mark = limit[2], limit[9]
  if kind == 1 then
    local level, at_us, refunds = bucket_of(limit, e, i)
    local now = max(now_us, at_us)
    local filled = min(units_at(limit, level, at_us, now) + cost * limit[6], limit[8])
    e[to + 1], e[to + 2], e[to + 3] = 1 + refunds * 16 + mark, now, filled / limit[6]
  elseif kind == 2 then
    local used, now = window_of(limit, e, i)
    e[to + 1], e[to + 2], e[to + 3] = 2 + mark, now, used + cost
  elseif kind == 3 then
    local current, previous, now = pair_of(limit, e, i)
    e[to + 1], e[to + 2], e[to + 3] = 3 + mark, now, {min(current + cost, 2^32 - 1), min(previous, 2^32 - 1)}
  else
    spend_groups(limit, e, i, cost, to)
  end
  return lasts_us(limit, e, to)
end

local function refund_bucket(limit, e, i, charge, amount)
  local unit, at_us, tag = limit[6], e[i + 2], e[i + 1] % 65536
  local now, refunds = max(now_us, at_us), (tag - 1) / 16
  local before = refunds == charge.refunds and charge.used_after or charge.cost
  local weight = min(units_at(limit, before, charge.at_us, now), charge.cost * unit)
  local returned = min(weight, amount * unit)
  if returned <= 0 then
    return 0, false
  end
  local level = max(units_at(limit, e[i + 3], at_us, now) - returned, 0) / unit
  e[i + 1], e[i + 2] = 1 + (refunds + 1) % 4096 * 16 + limit[9], now
  e[i + 3] = level > 0 and level
  if returned < 9.0e15 then
    return (returned - returned % 1 - (returned - returned % 1) % unit) / unit, true
  end
  return math.floor(returned / unit), true
end

local function refund_window(limit, e, i, charge, amount)
  local window_us, at_us, used = limit[5], e[i + 2], e[i + 3]
  local window_at_us = floor_to(max(now_us, at_us), window_us)
  if window_at_us ~= floor_to(charge.at_us, window_us) or window_at_us ~= floor_to(at_us, window_us) then
    return 0, false
  end
  local returned = min(amount, used)
  if returned == 0 then
    return 0, false
  end
  e[i + 1], e[i + 3] = 2 + limit[9], used > returned and used - returned
  return returned, true
end

local function refund_pair(limit, e, i, charge, amount)
  local window_us, at_us, pair = limit[5], e[i + 2], e[i + 3]
  local charged_us = floor_to(charge.at_us, window_us)
  if floor_to(max(now_us, at_us), window_us) > charged_us + window_us then
    return 0, false
  end
  local passed_us = floor_to(at_us, window_us) - charged_us
  local which = passed_us == 0 and 1 or passed_us == window_us and 2
  if not which then
    return 0, false
  end
  local returned = min(amount, pair[which])
  if returned == 0 then
    return 0, false
  end
  pair[which] = pair[which] - returned
  e[i + 1], e[i + 3] = 3 + limit[9], pair[1] + pair[2] > 0 and pair
  return returned, true
end

-- All groups, oldest first: times and counts.
local function all_groups(groups, kind, at_us)
  local times, counts, at = {}, {}, groups[6]
  local format = kind == 4 and '<I6I2' or '<I6I5'
  for older = 1, groups[3] do
    local time
    time, counts[older], at = unbytes(format, groups[5], at)
    times[older] = at_us - (at_us - time) % 2^48
  end
  times[#times + 1], counts[#counts + 1] = at_us, groups[1]
  return times, counts
end

-- A charge lies in the first group whose last hit is not before it; charges of one instant may lie in several. Gives where it
-- begins and how much is there.
local function find_charge(times, counts, charged_us)
  local index = 1
  while times[index] and times[index] < charged_us do
    index = index + 1
  end
  local there = 0
  for later = index, #times do
    there = there + counts[later]
    if times[later] > charged_us then
      break
    end
  end
  return index, there
end

local function rebuild_groups(limit, e, i, times, counts)
  local groups
  for index = 1, #times do
    if counts[index] > 0 and not groups then
      replace_groups(limit, e, i, times[index], counts[index])
      groups = e[i + 3]
    elseif counts[index] > 0 then
      local kind = push_newest(groups, e[i + 1] % 16, e[i + 2])
      groups[1], groups[2] = counts[index], groups[2] + counts[index]
      e[i + 1], e[i + 2] = kind + limit[9], times[index]
    end
  end
  if not groups or e[i + 2] + limit[5] <= now_us then
    e[i + 3] = false
  end
end

local function refund_groups(limit, e, i, charge, amount)
  local at_us = e[i + 2]
  if charge.at_us + limit[5] <= max(now_us, at_us) then
    return 0, false
  end
  local times, counts = all_groups(e[i + 3], e[i + 1] % 16, at_us)
  local index, there = find_charge(times, counts, charge.at_us)
  local returned = min(amount, there)
  if returned == 0 then
    return 0, false
  end
  local left = returned
  while left > 0 do
    local taken = min(left, counts[index])
    counts[index], left = counts[index] - taken, left - taken
    index = index + 1
  end
  rebuild_groups(limit, e, i, times, counts)
  return returned, true
end

-- Once the algorithm has changed, a charge can no longer be told apart.
local function refund(limit, e, i, charge, amount)
  local kind = e[i + 1] % 16
  if limit[2] ~= (kind == 5 and 4 or kind) or not e[i + 3] then
    return 0, false
  elseif kind == 1 then
    return refund_bucket(limit, e, i, charge, amount)
  elseif kind == 2 then
    return refund_window(limit, e, i, charge, amount)
  elseif kind == 3 then
    return refund_pair(limit, e, i, charge, amount)
  end
  return refund_groups(limit, e, i, charge, amount)
end
