-- The algorithms: what fits, and what a spend does to an entry. The same arithmetic on the same doubles as
-- crates/core/src/algorithm, to the last bit; no figures, which the caller works out from what the records held. Exact logs:
-- hits.lua; refunds: refund.lua.
--
-- A limit: {id, kind, life, capacity, window_us, a, b, full, mark}. Bucket: a is its unit (units a token), b its rate (units a
-- us), full is capacity x unit. Groups: a is the size of a group. The mark is that of an entry it changed, without the tag.
-- An entry is given as its record and its place there. Time never runs backwards for it: what it recorded is not in the
-- future. Offers:
--   read_limits(text)        ARGV[2], n x (I5 id, B kind, B life, d capacity, d window_us, d a, d b), as limits
--   fits(limit, e, i, cost)  whether a cost fits, given an entry or none (place 0); and a bucket's units, if it is one
--   spend(limit, e, i, cost, units)  records it, fitting or not, in an entry; how long in us that will matter. `units` as
--                            fits gave them, if the entry is still the same
--   add(limit, e, i, cost, to)  the same where there is no entry, or one of another algorithm; it is then at `to`
--   units_at(limit, level, at_us, now)  a bucket's level in units
--   living(groups, kind, at_us, window_us, now)  what is in use of groups, and how many are dead; now is not before at_us
--   push_newest(groups, kind, at_us)  puts the newest group among the older ones; the kind that holds them
--   adopted(limit, e, i)     what the limit's own algorithm makes of what is there: mark, at_us, payload

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

local function units_at(limit, level, at_us, now)
  local units, full = level * limit[6], limit[8]
  if units < 2^52 then
    -- Rounds to the nearest whole number, ties to even.
    units = units + 2^52 - 2^52
  end
  if units > full then
    units = full
  end
  if now > at_us then
    units = units - (now - at_us) * limit[7]
    if units < 0 then
      return 0
    end
  end
  return units
end

local function living(groups, kind, at_us, window_us, now)
  local n, used, dead = groups[3], groups[2], 0
  if at_us + window_us <= now then
    return 0, n + 1
  end
  if n == 0 or groups[4] + window_us > now then
    return used, 0
  end
  -- A sum that may have been cut off is no sum to subtract from.
  local is_cut, left = used >= 2^40 - 1, groups[1]
  local format, at = kind == 4 and '<I6I2' or '<I6I5', groups[6]
  for _ = 1, n do
    local time, count
    time, count, at = unbytes(format, groups[5], at)
    if at_us - (at_us - time) % 2^48 + window_us <= now then
      used, dead = used - count, dead + 1
    elseif is_cut then
      left = left + count
    else
      break
    end
  end
  if is_cut or used < left then
    used = left
  end
  return used, dead
end

local function push_newest(groups, kind, at_us)
  local count, n, source, from = groups[1], groups[3], groups[5], groups[6]
  local bytes_each, format = 8, '<I6I2'
  if kind == 5 or count > 65535 then
    bytes_each, format = 11, '<I6I5'
  end
  local older
  if kind == 4 and bytes_each == 11 then
    local wide, time, narrow = {}, nil, nil
    for nth = 1, n do
      time, narrow, from = unbytes('<I6I2', source, from)
      wide[nth] = pack('<I6I5', time, narrow)
    end
    older, kind = table.concat(wide), 5
  else
    older = sub(source, from, from + n * bytes_each - 1)
  end
  if n == 0 then
    groups[4] = at_us
  end
  groups[3], groups[5], groups[6] = n + 1, older .. pack(format, at_us % 2^48, count), 1
  return kind
end

-- `joins`: whatever the size of a group, for usage that another algorithm counted.
local function spend_groups(limit, e, i, cost, joins)
  local kind, at_us, groups, now = e[i + 1] % 16, e[i + 2], e[i + 3], now_us
  if at_us > now then
    now = at_us
  end
  local used, dead = living(groups, kind, at_us, limit[5], now)
  local alive = groups[3] + 1 - dead
  if alive == 0 then
    groups[1], groups[2], groups[3], kind = cost, cost, 0, 4
  else
    if dead > 0 then
      local n, from = alive - 1, groups[6] + dead * (kind == 4 and 8 or 11)
      groups[2], groups[3], groups[6] = used, n, from
      groups[4] = n > 0 and at_us - (at_us - unbytes('<I6', groups[5], from)) % 2^48 or at_us
    end
    local count = groups[1]
    if joins or alive >= 65 or count + cost <= limit[6] then
      local joined = count + cost
      if joined >= 2^40 then
        joined = 2^40 - 1
      end
      groups[1], groups[2] = joined, groups[2] + joined - count
    else
      kind = push_newest(groups, kind, at_us)
      groups[1], groups[2] = cost, groups[2] + cost
    end
    if groups[3] == 0 then
      kind = 4
    end
  end
  e[i + 1], e[i + 2] = kind + limit[9], now
  return now + limit[5] - now_us
end

-- Another algorithm's usage is taken over, never dropped, clamped to the capacity: so much, last at that time.
local function adopted(limit, e, i)
  local to, used, at_us = limit[2], 0, now_us
  if i > 0 then
    local kind, payload = e[i + 1] % 16, e[i + 3]
    at_us = e[i + 2]
    if kind == to then
      return e[i + 1], at_us, payload
    elseif kind == 1 then
      used = math.ceil(payload)
    elseif kind == 2 then
      used = payload
    elseif kind == 3 then
      used = payload[1] + payload[2]
    elseif kind == 6 then
      used = payload[1]
    else
      used = living(payload, kind, at_us, limit[5], now_us)
    end
    -- A window takes an exact log's usage for its own.
    if used > limit[4] and not (kind == 6 and to == 2) then
      used = limit[4]
    end
    if used == 0 then
      at_us = now_us
    end
  end
  if to == 1 then
    -- A new bucket starts its count of refunds somewhere else, so that charges of a forgotten one do not fit it.
    return used > 0 and 1 or 1 + now_us % 4096 * 16, at_us, used
  elseif to == 2 then
    return 2, at_us, used
  elseif to == 3 then
    return 3, at_us, {used, 0}
  end
  return 4, at_us, {used, used, 0, at_us, '', 1}
end

-- Both counts of a pair as seen from now, and now.
local function pair_now(limit, at_us, pair)
  local now, window_us = at_us > now_us and at_us or now_us, limit[5]
  local passed_us = now - now % window_us - (at_us - at_us % window_us)
  if passed_us == 0 then
    return pair[1], pair[2], now
  end
  return 0, passed_us == window_us and pair[1] or 0, now
end

local function pair_fits(limit, at_us, pair, cost)
  local current, previous, now = pair_now(limit, at_us, pair)
  local room, window_us = limit[4] - current - cost, limit[5]
  if room < 0 or previous == 0 then
    return room >= 0
  end
  -- Rounding keeps the order of two products, so only equal ones need a closer look: they differ by less than 2^31, and
  -- their lowest bits tell by how much.
  local overlap_us = window_us - now % window_us
  local weight, allowed = previous * overlap_us, room * window_us
  if weight ~= allowed or weight < 2^53 then
    return weight <= allowed
  end
  -- a x b modulo 2^32, for a below 2^32.
  local function low_32(a, b)
    local low = b % 2^16
    return (a * ((b % 2^32 - low) / 2^16) % 2^16 * 2^16 + a * low) % 2^32
  end
  local over = (low_32(previous, overlap_us) - low_32(room, window_us)) % 2^32
  return over == 0 or over >= 2^31
end

local function fits(limit, e, i, cost)
  local to = limit[2]
  if i == 0 then
    return cost <= limit[4]
  elseif to == 1 and e[i + 1] % 16 == 1 then
    local units = units_at(limit, e[i + 3], e[i + 2], now_us)
    return units <= (limit[4] - cost) * limit[6], units
  elseif cost > limit[4] then
    return false
  end
  local kind, at_us, payload = e[i + 1] % 16, e[i + 2], e[i + 3]
  if kind ~= to and not (kind == 5 and to == 4) then
    kind, at_us, payload = adopted(limit, e, i)
  end
  if to == 4 then
    return living(payload, kind, at_us, limit[5], at_us > now_us and at_us or now_us) + cost <= limit[4]
  elseif to == 3 then
    return pair_fits(limit, at_us, payload, cost)
  elseif to == 2 then
    local now, window_us = at_us > now_us and at_us or now_us, limit[5]
    local is_current = now - now % window_us == at_us - at_us % window_us
    return (is_current and payload or 0) + cost <= limit[4]
  end
  return units_at(limit, payload, at_us, now_us) <= (limit[4] - cost) * limit[6]
end

local function spend(limit, e, i, cost, units, joins)
  local to, at_us = limit[2], e[i + 2]
  local now, window_us = at_us > now_us and at_us or now_us, limit[5]
  if to == 1 then
    local unit = limit[6]
    units = (units or units_at(limit, e[i + 3], at_us, now)) + cost * unit
    if units > limit[8] then
      units = limit[8]
    end
    e[i + 1], e[i + 2], e[i + 3] = e[i + 1] % 65536 + limit[9], now, units / unit
    return units / limit[7] + (now - now_us)
  elseif to == 4 then
    return spend_groups(limit, e, i, cost, joins)
  elseif to == 2 then
    local is_current = now - now % window_us == at_us - at_us % window_us
    e[i + 1], e[i + 2], e[i + 3] = 2 + limit[9], now, (is_current and e[i + 3] or 0) + cost
    return now - now % window_us + window_us - now_us
  end
  local current, previous = pair_now(limit, at_us, e[i + 3])
  current = current + cost
  e[i + 1], e[i + 2], e[i + 3] = 3 + limit[9], now, {current < 2^32 and current or 2^32 - 1, previous}
  return now - now % window_us + 2 * window_us - now_us
end

local function add(limit, e, i, cost, to)
  e[to + 1], e[to + 2], e[to + 3] = adopted(limit, e, i)
  e[to] = limit[1]
  return spend(limit, e, to, cost, nil, true)
end
