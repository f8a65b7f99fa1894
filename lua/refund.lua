#!lua flags=allow-oom
-- Returns parts of earlier charges.
--
-- KEYS, ARGV[1], ARGV[2]  as in check.lua
-- ARGV[3]  charges, each I2 key (index into KEYS from 1), I2 log key (likewise, 0: none), I2 limit from 0, I7 at_us, I5 cost,
--          d used_after, I2 refunds, I5 amount; used_after (tokens) and refunds are what a bucket held right after the charge
-- Reply    R values as they were read (nil: none), then a string: I7 now_us, then for each charge I5 returned, in whole tokens

local limits, charges, at = read_limits(ARGV[2]), ARGV[3], 1
local returned, changes, logs = {}, {}, {}

local function refund_one(k, log, limit, charge, amount)
  local e, slots = load(k)
  local i = find(e, slots, limit[1])
  if i == 0 then
    return 0
  end
  local tokens, is_changed
  if limit[2] == 6 then
    tokens, is_changed = refund_hits(limit, e, i, charge, amount, KEYS[log])
    if is_changed then
      logs[log] = {e, i, k}
    end
  else
    tokens, is_changed = refund(limit, e, i, charge, amount)
  end
  if is_changed then
    changes[#changes + 1] = {k, limit, i}
  end
  return tokens
end

while at <= #charges do
  local k, log, limit, amount
  local charge = {}
  k, log, limit, charge.at_us, charge.cost, charge.used_after, charge.refunds, amount, at =
    unbytes('<I2I2I2I7I5dI2I5', charges, at)
  local tokens = refund_one(k, log, limits[limit + 1], charge, min(amount, charge.cost))
  returned[#returned + 1] = pack('<I5', tokens)
end

-- Only now is it known how long each will matter.
for _, change in ipairs(changes) do
  local k, limit, i = change[1], change[2], change[3]
  local e = records[k]
  longest[k] = max(longest[k] or 0, e[i + 3] and lasts_us(limit, e, i) or 0)
end
local stays = {}
for log, change in pairs(logs) do
  stays[log] = change[1][change[2] + 3]
end
for k = 1, records_count do
  if longest[k] then
    write(k)
  end
end
for log, change in pairs(logs) do
  if stays[log] then
    write_hits(stays[log], ttls[change[3]])
  else
    call('DEL', KEYS[log])
  end
end

values[records_count + 1] = pack('<I7', now_us) .. concat(returned)
return values
