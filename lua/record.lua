-- Records: all limits of one subject in one value. Shared by every verb, and run first.
--
-- A value, little-endian:   I6 expires_ms, then entries. expires_ms: when the last entry is dead, on the server's clock.
-- An entry:                 I5 id | I2 tag | B life | I7 at_us | payload
--   tag      kind + 16 x refunds (modulo 4096; refunds only for buckets)
--   life     2^(life/4) ms after at_us the entry is dead, whatever it holds
--   at_us    the time of its last change
--   payload  1 bucket       d level                    tokens
--            2 window       d used                     in the aligned window that holds at_us
--            3 pair         I4 current I4 previous     in that window and the one before
--            4 groups       I5 count I5 used B n, n x (I6 us, I2 count)
--            5 wide groups  I5 count I5 used B n, n x (I6 us, I5 count)
--            6 hits         I5 used I4 head I4 hits    the hits are in a key of their own: hits.lua
--   Groups: at_us and count are the newest one's, used is the sum of all, the older ones follow from the oldest on, their
--   times modulo 2^48.
--
-- In memory a record is a flat table, four slots an entry: id, mark, at_us, payload. The mark is I3: tag + 65536 x life, and
-- 2^24 more once this call has changed the entry (packing drops that). The payload is the number of a bucket or window, else
-- a table: pair {current, previous}; groups {count, used, n, oldest_us, source, from} where the older ones are n items
-- of the string `source` from byte `from` on, and oldest_us is the first one's whole time; hits: see hits.lua.
-- A payload of false is an entry to drop.
--
-- KEYS[1..R] records; ARGV[1]: I7 now_us (0: the server's time) I2 R. Offers:
--   now_us, values          the time; what the R keys held, nil (false) for what is no string
--   load(k)                 the record at KEYS[k] and its slots in use
--   find(e, slots, id)      the first slot of an entry, 0 if there is none
--   records, sizes          what is loaded: the tables and their slots in use, by k
--   longest                 by k: the longest time in us that a changed entry will matter. Its presence means: to be written
--   ttls                    by k, after write(k): the record's time to live in ms
--   write(k)                writes KEYS[k] as it is now in memory

local call, pack, unbytes = redis.call, struct.pack, struct.unpack
local sub, rep, concat = string.sub, string.rep, table.concat

local COUNT_MAX, EXPIRES_MS_MAX = 2^40 - 1, 2^48 - 1
-- A fake clock's keys must outlive the test's real time.
local GIVEN_TTL_MS_MIN = 60000
local PLAIN_ENTRIES_MAX = 64

local now_us, records_count = unbytes('<I7I2', ARGV[1])
local now_is_given = now_us > 0
if not now_is_given then
  local time = call('TIME')
  now_us = time[1] * 1000000 + time[2]
end

-- MGET, even of one key: it takes a value of another type for none.
local values = call('MGET', unpack(KEYS, 1, records_count))
local records, sizes, longest, ttls = {}, {}, {}, {}
local plain_formats = {}

local function plain_format(entries)
  local format = plain_formats[entries]
  if not format then
    format = '<I6' .. rep('I5I3I7d', entries)
    plain_formats[entries] = format
  end
  return format
end

local function read_groups(value, at, kind, at_us)
  if at + 10 > #value then
    return nil
  end
  local count, used, n, from = unbytes('<I5I5B', value, at)
  local after = from + n * (kind == 4 and 8 or 11)
  if after > #value + 1 then
    return nil
  end
  local oldest_us = at_us
  if n > 0 then
    oldest_us = at_us - (at_us - unbytes('<I6', value, from)) % 2^48
  end
  return {count, used, n, oldest_us, value, from}, after
end

-- The payload at a place of the value and where it ends; nil for what no script of ours wrote.
local function read_payload(value, at, kind, at_us, number)
  if kind == 1 or kind == 2 then
    if number >= 0 and number < math.huge then
      return number, at + 8
    end
  elseif kind == 3 then
    return {unbytes('<I4I4', value, at)}, at + 8
  elseif kind == 4 or kind == 5 then
    return read_groups(value, at, kind, at_us)
  elseif kind == 6 and at + 12 <= #value then
    return {unbytes('<I5I4I4', value, at)}, at + 13
  end
  return nil
end

local function read(value)
  local e, slots, at, length = {}, 0, 7, #value
  while at <= length do
    if at + 22 > length then
      return {}, 0
    end
    local id, mark, at_us, number = unbytes('<I5I3I7d', value, at)
    local payload, after = read_payload(value, at + 15, mark % 16, at_us, number)
    if not payload then
      return {}, 0
    end
    e[slots + 1], e[slots + 2], e[slots + 3], e[slots + 4] = id, mark, at_us, payload
    slots, at = slots + 4, after
  end
  return e, slots
end

local function load(k)
  local e, slots = records[k], sizes[k]
  if e then
    return e, slots
  end
  local value = values[k]
  if value then
    e, slots = read(value)
  else
    e, slots = {}, 0
  end
  records[k], sizes[k] = e, slots
  return e, slots
end

local function find(e, slots, id)
  for i = 1, slots, 4 do
    if e[i] == id then
      return i
    end
  end
  return 0
end

local function payload_bytes(kind, payload)
  if kind == 3 then
    return pack('<I4I4', payload[1], payload[2])
  elseif kind == 6 then
    return pack('<I5I4I4', payload[1] < COUNT_MAX and payload[1] or COUNT_MAX, payload[2], payload[3])
  end
  local used, n, from = payload[2], payload[3], payload[6]
  return pack('<I5I5B', payload[1], used < COUNT_MAX and used or COUNT_MAX, n)
    .. sub(payload[5], from, from + n * (kind == 4 and 8 or 11) - 1)
end

-- An entry this call did not change has only its life to go by.
local function is_kept(e, i)
  return e[i + 3] and (e[i + 1] >= 2^24 or e[i + 2] + 2^(math.floor(e[i + 1] / 65536) / 4) * 1000 > now_us)
end

-- Removes what is dead; gives the slots left, whether all payloads are numbers and whether all were changed.
local function tidy(e, slots)
  local to, is_plain, all_changed = 1, true, true
  for i = 1, slots, 4 do
    if is_kept(e, i) then
      if to < i then
        e[to], e[to + 1], e[to + 2], e[to + 3] = e[i], e[i + 1], e[i + 2], e[i + 3]
      end
      is_plain = is_plain and type(e[to + 3]) == 'number'
      all_changed = all_changed and e[to + 1] >= 2^24
      to = to + 4
    end
  end
  return to - 1, is_plain, all_changed
end

local function bytes(e, slots, is_plain, expires_ms)
  if is_plain and slots <= PLAIN_ENTRIES_MAX * 4 then
    return pack(plain_format(slots / 4), expires_ms, unpack(e, 1, slots))
  end
  local parts = {pack('<I6', expires_ms)}
  for i = 1, slots, 4 do
    local payload = e[i + 3]
    if type(payload) == 'number' then
      parts[#parts + 1] = pack('<I5I3I7d', e[i], e[i + 1], e[i + 2], payload)
    else
      parts[#parts + 1] = pack('<I5I3I7', e[i], e[i + 1], e[i + 2])
      parts[#parts + 1] = payload_bytes(e[i + 1] % 16, payload)
    end
  end
  return concat(parts)
end

local function write(k)
  local e, is_plain, all_changed = records[k]
  local slots
  slots, is_plain, all_changed = tidy(e, sizes[k])
  sizes[k] = slots
  if slots == 0 then
    if values[k] then
      call('DEL', KEYS[k])
    end
    return
  end
  local expires_ms = 0
  if longest[k] > 0 then
    expires_ms = (now_us + longest[k]) / 1000
    expires_ms = expires_ms + -expires_ms % 1
    expires_ms = expires_ms < EXPIRES_MS_MAX and expires_ms or EXPIRES_MS_MAX
  end
  if not all_changed then
    local before_ms = unbytes('<I6', values[k])
    expires_ms = before_ms > expires_ms and before_ms or expires_ms
  end
  local ttl_ms = expires_ms - (now_us - now_us % 1000) / 1000
  local least_ms = now_is_given and GIVEN_TTL_MS_MIN or 1
  ttl_ms = ttl_ms > least_ms and ttl_ms or least_ms
  ttls[k] = ttl_ms
  call('SET', KEYS[k], bytes(e, slots, is_plain, expires_ms), 'PX', ttl_ms)
end
