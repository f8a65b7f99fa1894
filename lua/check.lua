#!lua
-- Decides requests in order, each seeing what the ones before it spent, and writes what they spend.
--
-- KEYS[1..R]  records (record.lua), then the logs of exact limits (hits.lua)
-- ARGV[1]     I7 now_us (0: the server's time) I2 R
-- ARGV[2]     limits, each I5 id, B kind (1 bucket, 2 window, 3 pair, 4 groups, 6 hits), B life, d capacity, d window_us,
--             d a, d b (algorithms.lua)
-- ARGV[3]     shapes, each B n, B k, then n lines: B key and B log, places from 0 in a request's list of keys (log 255: none),
--             I2 limit from 0, B flags (1: shadow)
-- ARGV[4]     requests, each I2 shape from 0, I5 cost, B flags (1: forced, spends on every limit without asking), then k x I2
--             index into KEYS from 1
-- Reply       R values as they were read (nil: none), then a string: I7 now_us, a byte a request (1 allowed, 0 refused), then
--             for each request for each of its limits of kind 6: I5 used before it, I7 oldest_us (its oldest living hit, 0:
--             none), I7 wait_us (0: fits, 2^53: never)
--
-- If an enforced limit does not fit, nothing is spent; else every limit that fits is, but not a shadow one whose counter an
-- earlier limit of the request has spent on already.

local limits = read_limits(ARGV[2])
local shapes = numbers(ARGV[3], 'B', 1)
local words = numbers(ARGV[4], 'I2', 2)

-- Where each shape begins. Its lines get their limit itself instead of its number. One that meets a counter twice is marked.
local starts, meets_twice, has_logs, met_by = {}, {}, false, {}
local at = 1
while shapes[at] do
  local shape, lines = #starts + 1, shapes[at]
  starts[shape] = at
  for line = at + 2, at + lines * 5 - 3, 5 do
    local limit = limits[shapes[line + 2] + shapes[line + 3] * 256 + 1]
    local id = limit[1]
    shapes[line + 2] = limit
    meets_twice[shape] = meets_twice[shape] or met_by[id] == shape
    met_by[id] = shape
    has_logs = has_logs or limit[2] == 6
  end
  at = at + lines * 5 + 2
end

local verdicts, log_figures, log_changes = {}, {}, {}
-- Of the request at hand, by line: the entry's place, whether the cost fits, and a bucket's units.
local places, fit, units = {}, {}, {}

-- Looks at all limits of a request; whether the enforced ones fit. Without logs, nobody asks for more than the first refusal.
local function look(first, last, keys_at, cost, looks_on)
  local all_fit, j, met_k, e, i = true, 0, 0, nil, 0
  for line = first, last, 5 do
    local k, limit = words[keys_at + shapes[line]], shapes[line + 2]
    local id = limit[1]
    -- Entries mostly stand in the order they are asked for.
    if k == met_k then
      i = i + 4
    else
      met_k, i = k, 2
      e = records[k] or read(k)
    end
    local place = i
    if e[i] ~= id then
      place = find(k, id)
      i = place > 0 and place or i
    end
    j = j + 1
    places[j] = place
    if limit[2] == 6 then
      local used, oldest_us, wait_us = logs().look(limit, e, place, cost, KEYS[words[keys_at + shapes[line + 1]]])
      log_figures[#log_figures + 1] = pack('<I5I7I7', used < 2^40 and used or 2^40 - 1, oldest_us, wait_us)
      fit[j], units[j] = wait_us == 0, nil
    else
      fit[j], units[j] = fits(limit, e, place, cost)
    end
    if not fit[j] and shapes[line + 4] == 0 then
      all_fit = false
      if not looks_on then
        return false
      end
    end
  end
  return all_fit
end

-- For a shape that meets a counter twice: what was measured may be spent on by an earlier line, and a shadow line whose
-- counter was spent on does not spend again.
local function look_again(first, last, keys_at)
  local j = 0
  for line = first, last, 5 do
    j = j + 1
    units[j] = nil
    for before = 1, shapes[line + 4] == 1 and j - 1 or 0 do
      local other = first + before * 5 - 5
      if fit[before] and words[keys_at + shapes[other]] == words[keys_at + shapes[line]] then
        fit[j] = fit[j] and shapes[other + 2][1] ~= shapes[line + 2][1]
      end
    end
  end
end

local function spend_all(first, last, keys_at, cost)
  local j = 0
  for line = first, last, 5 do
    j = j + 1
    if fit[j] then
      local k, limit, place, lasts = words[keys_at + shapes[line]], shapes[line + 2], places[j], nil
      local e = records[k]
      if units[j] then
        lasts = spend(limit, e, place, cost, units[j])
      else
        -- The line before may have made the entry that was missing.
        place = find(k, limit[1])
        local to = place
        if place == 0 then
          to = ends[k] + 1
          ends[k] = to + 3
        end
        local kind = place > 0 and e[place + 1] % 16
        if limit[2] == 6 then
          local log = words[keys_at + shapes[line + 1]]
          lasts = logs().spend(limit, e, place, cost, KEYS[log], to)
          log_changes[log] = {e[to + 3], k}
        elseif kind == limit[2] or kind == 5 and limit[2] == 4 then
          lasts = spend(limit, e, place, cost)
        else
          lasts = add(limit, e, place, cost, to)
        end
      end
      if not (lasts_us[k] and lasts_us[k] > lasts) then
        lasts_us[k] = lasts
      end
    end
  end
end

at = 1
while words[at] do
  local shape, cost, high = words[at] + 1, words[at + 1], words[at + 3]
  if high > 0 or words[at + 2] > 0 then
    cost = cost + words[at + 2] * 2^16 + high % 256 * 2^32
  end
  local is_forced, keys_at, start = high >= 256, at + 4, starts[shape]
  local lines = shapes[start]
  local first, last = start + 2, start + lines * 5 - 3
  at = keys_at + shapes[start + 1]
  local is_allowed = look(first, last, keys_at, cost, has_logs or is_forced) or is_forced
  verdicts[#verdicts + 1] = is_allowed and '\1' or '\0'
  if is_allowed and cost > 0 then
    for j = 1, is_forced and lines or 0 do
      fit[j] = true
    end
    if meets_twice[shape] then
      look_again(first, last, keys_at)
    end
    spend_all(first, last, keys_at, cost)
  end
end

for _, change in pairs(log_changes) do
  logs().shorten(change[1])
end
local ttls_ms = {}
for k = 1, records_count do
  if lasts_us[k] then
    ttls_ms[k] = write(k)
  end
end
for _, change in pairs(log_changes) do
  logs().write(change[1], ttls_ms[change[2]])
end

values[records_count + 1] = pack('<I7', now_us) .. table.concat(verdicts) .. table.concat(log_figures)
return values
