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
--   times modulo 2^48. Counts saturate at 2^40 - 1.
--
-- In memory a record is a flat table: expires_ms, then four slots an entry: id, mark, at_us, payload; an entry's place is that
-- of its id: 2, 6, 10 and so on. The mark is tag and life read as one I3: tag + 65536 x life, and 2^24 more once this call has
-- changed the entry, which packing drops again. The payload is the number of a bucket or window, else a table:
--   pair    {current, previous}
--   groups  {count, used, n, oldest_us, source, from}: the older ones are n items of the string `source` from byte `from`
--           on, and oldest_us is the first one's whole time
--   hits    {used, head, hits}, more in hits.lua
-- A payload of false is an entry to drop.
--
-- KEYS[1..R] records; ARGV[1]: I7 now_us (0: the server's time) I2 R. Offers:
--   now_us, records_count   the time, and R
--   values                  what the R keys held, false for nothing and for what is no string
--   records, ends           by k: the record at KEYS[k], once read, and its last slot in use
--   read(k)                 reads it
--   find(k, id)             an entry's place, 0 if there is none; reads the record if need be
--   lasts_us                by k: how long at most an entry that was changed will matter. Its presence means: to be written
--   numbers(text, format, size)  what a text of nothing but such numbers says
--   write(k)                writes it; gives its time to live in ms, or nil where nothing was left to write
--
-- Making a function costs a call about as much as deciding a limit, and the more so the more locals it shares. So only what
-- most calls need is made at once, and the rest when it is first asked for.

local call, pack, unbytes, sub, rep = redis.call, struct.pack, struct.unpack, string.sub, string.rep

local now_us, records_count = unbytes('<I7I2', ARGV[1])
local now_is_given = now_us > 0
if not now_is_given then
  local time = call('TIME')
  now_us = time[1] * 1000000 + time[2]
end

-- MGET, even of one key: it takes a value of another type for none.
local values = call('MGET', unpack(KEYS, 1, records_count))
local records, ends, lasts_us, plain_formats = {}, {}, {}, {}

-- As many at a time as a call may give.
local function numbers(text, format, size)
  local count = #text / size
  if count <= 2000 then
    local list = {unbytes('<' .. rep(format, count), text)}
    list[count + 1] = nil
    return list
  end
  local list = {}
  for n = 1, count do
    list[n] = unbytes('<' .. format, text, (n - 1) * size + 1)
  end
  return list
end

-- A record of buckets and windows alone is read and written in one go, unless it is too long for one.
local PLAIN_ENTRIES_MAX = 64

local function plain_format(entries)
  local format = plain_formats[entries]
  if not format then
    format = '<I6' .. rep('I5I3I7d', entries)
    plain_formats[entries] = format
  end
  return format
end

-- Reads any other record, entry by entry; nil for a value that no script of ours wrote.
local function read_entries(value)
  local e, last, at, length = {(unbytes('<I6', value))}, 1, 7, #value
  while at <= length do
    if at + 22 > length then
      return nil
    end
    local id, mark, at_us, payload, after = unbytes('<I5I3I7d', value, at)
    local kind = mark % 16
    if kind == 1 or kind == 2 then
      if not (payload >= 0 and payload < math.huge) then
        return nil
      end
    elseif kind == 3 then
      payload = {unbytes('<I4I4', value, at + 15)}
    elseif (kind == 4 or kind == 5) and at + 25 <= length then
      local count, used, n, from = unbytes('<I5I5B', value, at + 15)
      after = from + n * (kind == 4 and 8 or 11)
      if after > length + 1 then
        return nil
      end
      local oldest_us = n > 0 and at_us - (at_us - unbytes('<I6', value, from)) % 2^48 or at_us
      payload = {count, used, n, oldest_us, value, from}
    elseif kind == 6 and at + 27 <= length then
      payload = {unbytes('<I5I4I4', value, at + 15)}
      after = at + 28
    else
      return nil
    end
    e[last + 1], e[last + 2], e[last + 3], e[last + 4] = id, mark, at_us, payload
    last, at = last + 4, after
  end
  return e, last
end

local function read_plain(value, entries)
  local e, last = {unbytes(plain_format(entries), value)}, entries * 4 + 1
  for i = 2, last, 4 do
    local kind, number = e[i + 1] % 16, e[i + 3]
    if kind == 0 or kind > 2 or not (number >= 0 and number < math.huge) then
      return nil
    end
  end
  e[last + 1] = nil
  return e, last
end

local function read(k)
  local value, e, last = values[k]
  if value and #value > 6 then
    local entries = (#value - 6) / 23
    if entries % 1 == 0 and entries <= PLAIN_ENTRIES_MAX then
      e, last = read_plain(value, entries)
    end
    if not e then
      e, last = read_entries(value)
    end
  end
  e = e or {0}
  records[k], ends[k] = e, last or 1
  return e
end

local function find(k, id)
  local e = records[k] or read(k)
  for i = 2, ends[k], 4 do
    if e[i] == id then
      return i
    end
  end
  return 0
end

-- The bytes of any record, packed some entries at a time: a call takes a limited number of values.
local function mixed_bytes(e, last)
  local parts, formats, slots, f, n = {}, {'<I6'}, {e[1]}, 1, 1
  for i = 2, last, 4 do
    local mark, payload = e[i + 1], e[i + 3]
    local kind = mark % 16
    slots[n + 1], slots[n + 2], slots[n + 3] = e[i], mark, e[i + 2]
    f = f + 1
    if kind < 3 then
      formats[f], slots[n + 4], n = 'I5I3I7d', payload, n + 4
    elseif kind == 3 then
      formats[f], slots[n + 4], slots[n + 5], n = 'I5I3I7I4I4', payload[1], payload[2], n + 5
    elseif kind == 6 then
      formats[f], slots[n + 4] = 'I5I3I7I5I4I4', payload[1] < 2^40 and payload[1] or 2^40 - 1
      slots[n + 5], slots[n + 6], n = payload[2], payload[3], n + 6
    else
      local used, from = payload[2], payload[6]
      formats[f], slots[n + 4], slots[n + 5] = 'I5I3I7I5I5Bc0', payload[1], used < 2^40 and used or 2^40 - 1
      slots[n + 6], slots[n + 7] = payload[3], sub(payload[5], from, from + payload[3] * (kind == 4 and 8 or 11) - 1)
      n = n + 7
    end
    if n > 1000 or i + 4 > last then
      parts[#parts + 1] = pack(table.concat(formats, '', 1, f), unpack(slots, 1, n))
      formats[1], f, n = '<', 1, 0
    end
  end
  return table.concat(parts)
end

local function write(k)
  -- A fake clock's keys must outlive the test's real time.
  local EXPIRES_MS_MAX, GIVEN_TTL_MS_MIN = 2^48 - 1, 60000
  local e, to, expires_ms, is_plain = records[k], 2, 0, true
  for i = 2, ends[k], 4 do
    local mark, payload = e[i + 1], e[i + 3]
    -- An entry this call did not change has only its life to go by.
    if mark < 2^24 then
      if e[i + 2] + 2^((mark - mark % 65536) / 262144) * 1000 > now_us then
        expires_ms = e[1]
      else
        payload = false
      end
    end
    if payload then
      is_plain = is_plain and mark % 16 < 3
      if to < i then
        e[to], e[to + 1], e[to + 2], e[to + 3] = e[i], mark, e[i + 2], payload
      end
      to = to + 4
    end
  end
  if to == 2 then
    call('DEL', KEYS[k])
    return nil
  end
  local lasts = lasts_us[k]
  local last_ms = (now_us + (lasts + -lasts % 1)) / 1000
  last_ms = last_ms + -last_ms % 1
  if lasts > 0 and last_ms > expires_ms then
    expires_ms = last_ms < EXPIRES_MS_MAX and last_ms or EXPIRES_MS_MAX
  end
  local ttl_ms, least_ms = expires_ms - (now_us - now_us % 1000) / 1000, now_is_given and GIVEN_TTL_MS_MIN or 1
  if ttl_ms < least_ms then
    ttl_ms = least_ms
  end
  e[1], ends[k] = expires_ms, to - 1
  local bytes
  if is_plain and to <= PLAIN_ENTRIES_MAX * 4 + 2 then
    bytes = pack(plain_format((to - 2) / 4), unpack(e, 1, to - 1))
  else
    bytes = mixed_bytes(e, to - 1)
  end
  call('SET', KEYS[k], bytes, 'PX', ttl_ms)
  return ttl_ms
end
