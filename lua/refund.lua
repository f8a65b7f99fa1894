#!lua flags=allow-oom
-- Returns parts of earlier charges, by the arithmetic of crates/core/src/algorithm.
--
-- KEYS, ARGV[1], ARGV[2]  as in check.lua
-- ARGV[3]  charges, each I2 key (index into KEYS from 1), I2 log key (likewise, 0: none), I2 limit from 0, I7 at_us, I5 cost,
--          d used_after, I2 refunds, I5 amount; used_after (tokens) and refunds are what a bucket held right after the charge
-- Reply    R values as they were read (nil: none), then a string: I7 now_us, then for each charge I5 returned, in whole tokens
--
-- Each function below takes a limit, an entry's record and place, a charge and how much of it to return at most; it gives how
-- much that was, or 0 and leaves the entry as it was.

local min, max = math.min, math.max

-- A charge still weighs what would be left of the level right after it, had nothing been spent since. Once another charge was
-- returned in between, that level is no guide any more, and the charge counts as if it had drained from its own first moment.
local function refund_bucket(limit, e, i, charge, amount)
  local unit, at_us, refunds = limit[6], e[i + 2], (e[i + 1] % 65536 - 1) / 16
  local now = max(now_us, at_us)
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
    -- Where a quotient could be rounded up to a whole number, a remainder cannot.
    return (returned - returned % unit) / unit, true
  end
  return math.floor(returned / unit), true
end

local function refund_window(limit, e, i, charge, amount)
  local window_us, at_us, used = limit[5], e[i + 2], e[i + 3]
  local now = max(now_us, at_us)
  local window_at_us = now - now % window_us
  local is_there = window_at_us == charge.at_us - charge.at_us % window_us and window_at_us == at_us - at_us % window_us
  local returned = is_there and min(amount, used) or 0
  if returned > 0 then
    e[i + 1], e[i + 3] = 2 + limit[9], used > returned and used - returned
  end
  return returned, returned > 0
end

local function refund_pair(limit, e, i, charge, amount)
  local window_us, at_us, pair = limit[5], e[i + 2], e[i + 3]
  local now, charged_us = max(now_us, at_us), charge.at_us - charge.at_us % window_us
  local passed_us = at_us - at_us % window_us - charged_us
  local which = passed_us == 0 and 1 or passed_us == window_us and 2
  if not which or now - now % window_us > charged_us + window_us then
    return 0, false
  end
  local returned = min(amount, pair[which])
  if returned > 0 then
    pair[which] = pair[which] - returned
    e[i + 1], e[i + 3] = 3 + limit[9], pair[1] + pair[2] > 0 and pair
  end
  return returned, returned > 0
end

-- All groups, oldest first: times and counts.
local function all_groups(e, i)
  local kind, at_us, groups = e[i + 1] % 16, e[i + 2], e[i + 3]
  local times, counts, n, at = {}, {}, groups[3], groups[6]
  for older = 1, n do
    times[older], counts[older], at = unbytes(kind == 4 and '<I6I2' or '<I6I5', groups[5], at)
    times[older] = at_us - (at_us - times[older]) % 2^48
  end
  times[n + 1], counts[n + 1] = at_us, groups[1]
  return times, counts
end

-- Puts back what is left of them.
local function put_groups(limit, e, i, times, counts)
  local groups, kind = nil, 4
  for nth = 1, #times do
    if counts[nth] > 0 then
      if groups then
        kind = push_newest(groups, kind, e[i + 2])
        groups[1], groups[2] = counts[nth], groups[2] + counts[nth]
      else
        groups = {counts[nth], counts[nth], 0, times[nth], '', 1}
      end
      e[i + 2] = times[nth]
    end
  end
  e[i + 1], e[i + 3] = kind + limit[9], groups and e[i + 2] + limit[5] > now_us and groups
end

-- A charge lies in the first group whose last hit is not before it; charges of one instant may lie in several.
local function refund_groups(limit, e, i, charge, amount)
  if charge.at_us + limit[5] <= max(now_us, e[i + 2]) then
    return 0, false
  end
  local times, counts = all_groups(e, i)
  local left = amount
  for nth = 1, #times do
    if times[nth] >= charge.at_us then
      local taken = min(left, counts[nth])
      counts[nth], left = counts[nth] - taken, left - taken
    end
    if times[nth] > charge.at_us then
      break
    end
  end
  if left < amount then
    put_groups(limit, e, i, times, counts)
  end
  return amount - left, left < amount
end

-- The number of the first hit in a text that is not before a time.
local function first_from(text, at_us)
  local low, high = 0, #text / 12
  while low < high do
    local middle = math.floor((low + high) / 2)
    if unbytes('<I7', text, middle * 12 + 1) < at_us then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- As groups, in the text of a log.
local function take_hits(text, charged_us, amount)
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
  return table.concat(kept), amount - left
end

local function refund_hits(limit, e, i, charge, amount, key)
  local x = e[i + 3]
  if charge.at_us + limit[5] <= max(now_us, e[i + 2]) then
    return 0, false
  end
  logs().open(x, key)
  local text, returned = take_hits(x.text or logs().range(key, x[2], x[3]), charge.at_us, amount)
  if returned == 0 then
    return 0, false
  end
  x.text, x[1], x[2], x[3] = text, max(x[1] - returned, 0), 0, #text / 12
  if text ~= '' then
    e[i + 2] = unbytes('<I7', text, #text - 11)
  end
  e[i + 1], e[i + 3] = 6 + limit[9], text ~= '' and e[i + 2] + limit[5] > now_us and x
  return returned, true
end

local REFUNDS = {refund_bucket, refund_window, refund_pair, refund_groups, refund_groups, refund_hits}

-- How long a changed entry will matter.
local function lasts(limit, e, i)
  local at_us, window_us = e[i + 2], limit[5]
  local ends_us = at_us + window_us
  if limit[2] == 1 then
    ends_us = at_us + math.ceil(units_at(limit, e[i + 3], at_us, at_us) / limit[7])
  elseif limit[2] == 2 then
    ends_us = ends_us - at_us % window_us
  elseif limit[2] == 3 then
    ends_us = ends_us - at_us % window_us + (e[i + 3][1] > 0 and window_us or 0)
  end
  return ends_us - now_us
end

local limits, charges, at = read_limits(ARGV[2]), ARGV[3], 1
local returned, changes, log_changes = {}, {}, {}
while at <= #charges do
  local k, log, number, amount
  local charge = {}
  k, log, number, charge.at_us, charge.cost, charge.used_after, charge.refunds, amount, at =
    unbytes('<I2I2I2I7I5dI2I5', charges, at)
  local limit, i = limits[number + 1], find(k, limits[number + 1][1])
  local e, tokens, is_changed = records[k], 0, false
  local kind = i > 0 and e[i + 3] and e[i + 1] % 16
  -- Once the algorithm has changed, a charge can no longer be told apart.
  if kind == limit[2] or kind == 5 and limit[2] == 4 then
    tokens, is_changed = REFUNDS[kind](limit, e, i, charge, min(amount, charge.cost), KEYS[log])
  end
  if is_changed then
    changes[#changes + 1] = {k, limit, i}
    if kind == 6 then
      log_changes[log] = {e[i + 3], k}
    end
  end
  returned[#returned + 1] = pack('<I5', tokens)
end

-- A later charge may have left less than an earlier one, so only now is it known how long each will matter.
for _, change in ipairs(changes) do
  local k, limit, i = change[1], change[2], change[3]
  lasts_us[k] = max(lasts_us[k] or 0, records[k][i + 3] and lasts(limit, records[k], i) or 0)
end
local ttls_ms = {}
for k = 1, records_count do
  if lasts_us[k] then
    ttls_ms[k] = write(k)
  end
end
for log, change in pairs(log_changes) do
  if change[1] then
    logs().write(change[1], ttls_ms[change[2]])
  else
    call('DEL', KEYS[log])
  end
end

values[records_count + 1] = pack('<I7', now_us) .. table.concat(returned)
return values
