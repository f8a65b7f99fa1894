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

local function read_shapes(text)
  local shapes, at = {}, 1
  while at <= #text do
    local n, keys
    n, keys, at = unbytes('<BB', text, at)
    local lines = {keys = keys}
    for j = 1, n do
      local key, log, limit, flags
      key, log, limit, flags, at = unbytes('<BBI2B', text, at)
      lines[j] = {key + 1, log + 1, limits[limit + 1], flags % 2 == 1}
      lines.has_hits = lines.has_hits or limits[limit + 1][2] == 6
    end
    shapes[#shapes + 1] = lines
  end
  return shapes
end

local shapes = read_shapes(ARGV[3])
-- Of the request at hand, by line: the entry's slot, and whether the cost fits.
local found, fit = {}, {}
local logs = {}
local verdicts, log_figures = {}, {}

local function look(lines, keys, cost)
  local all_fit = true
  for j = 1, #lines do
    local line = lines[j]
    local limit = line[3]
    local e, slots = load(keys[line[1]])
    local i = find(e, slots, limit[1])
    local does_fit
    if limit[2] == 6 then
      local used, oldest_us, wait_us = look_hits(limit, e, i, cost, KEYS[keys[line[2]]])
      log_figures[#log_figures + 1] = pack('<I5I7I7', min(used, COUNT_MAX), oldest_us, wait_us)
      does_fit = wait_us == 0
    else
      does_fit = fits(limit, e, i, cost)
    end
    fit[j] = does_fit
    all_fit = all_fit and (does_fit or line[4])
  end
  return all_fit
end

local function is_spent_already(lines, keys, j)
  local line = lines[j]
  for before = 1, j - 1 do
    local other = lines[before]
    if fit[before] and keys[other[1]] == keys[line[1]] and other[3][1] == line[3][1] then
      return true
    end
  end
  return false
end

local function spend_line(line, keys, cost)
  local k, limit = keys[line[1]], line[3]
  local e, slots = load(k)
  local i = find(e, slots, limit[1])
  local to = i
  if i == 0 then
    to = slots + 1
    e[to], sizes[k] = limit[1], slots + 4
  end
  local lasts
  if limit[2] == 6 then
    lasts = spend_hits(limit, e, i, cost, KEYS[keys[line[2]]], to)
    logs[keys[line[2]]] = {e[to + 3], k}
  else
    lasts = spend(limit, e, i, cost, to)
  end
  longest[k] = max(longest[k] or 0, lasts)
end

local function decide(lines, keys, cost, is_forced)
  local is_allowed = look(lines, keys, cost) or is_forced
  if is_allowed and cost > 0 then
    for j = 1, #lines do
      fit[j] = fit[j] or is_forced
      if fit[j] and lines[j][4] and is_spent_already(lines, keys, j) then
        fit[j] = false
      end
      if fit[j] then
        spend_line(lines[j], keys, cost)
      end
    end
  end
  return is_allowed
end

local requests, at = ARGV[4], 1
while at <= #requests do
  local shape, cost, flags
  shape, cost, flags, at = unbytes('<I2I5B', requests, at)
  local lines = shapes[shape + 1]
  local keys = {unbytes('<' .. rep('I2', lines.keys), requests, at)}
  at = keys[lines.keys + 1]
  verdicts[#verdicts + 1] = decide(lines, keys, cost, flags % 2 == 1) and '\1' or '\0'
end

for _, log in pairs(logs) do
  pack_hits(log[1])
end
for k = 1, records_count do
  if longest[k] then
    write(k)
  end
end
for _, log in pairs(logs) do
  write_hits(log[1], ttls[log[2]])
end

values[records_count + 1] = pack('<I7', now_us) .. concat(verdicts) .. concat(log_figures)
return values
