"""What a broker does in one step: each script is one round trip, and nobody else's command comes between.

All of them name their keys in KEYS, except the parts of a snapshot, whose names are made from the prefix in the
arguments.
"""

from __future__ import annotations

# KEYS: the stream. Reply: {"none"} | {"other"} (a key of another type) |
# {"stream", length, last id, greatest id deleted by XDEL, entries ever added, id of the first entry}.
LOOK = """
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind ~= 'stream' then return {kind == 'none' and 'none' or 'other'} end
local found = redis.call('XINFO', 'STREAM', KEYS[1])
local info = {}
for i = 1, #found, 2 do info[found[i]] = found[i + 1] end
return {'stream', info['length'], info['last-generated-id'], info['max-deleted-entry-id'] or '0-0',
        info['entries-added'] or info['length'], info['recorded-first-entry-id'] or '0-0'}
"""

# KEYS: the stream. ARGV: the id it must end with ("0-0": it is empty or absent), the new id, the field, its value,
# the most entries it may hold. Reply: 1, or 0 when it ends with another id; then nothing was added.
APPEND = """
local last = '0-0'
if redis.call('EXISTS', KEYS[1]) == 1 then
  local found = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #found, 2 do if found[i] == 'last-generated-id' then last = found[i + 1] end end
end
if last ~= ARGV[1] then return 0 end
redis.call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[5], ARGV[2], ARGV[3], ARGV[4])
return 1
"""

# KEYS: the stream. ARGV: the last id and the number of entries ever added that were seen; "" for whatever is no stream.
# Deletes the stream if it is still the one that was seen. Reply: 1 or 0.
RESET = """
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind == 'none' then return 1 end
if kind == 'stream' then
  local found = redis.call('XINFO', 'STREAM', KEYS[1])
  local info = {}
  for i = 1, #found, 2 do info[found[i]] = found[i + 1] end
  local added = tostring(info['entries-added'] or info['length'])
  if info['last-generated-id'] ~= ARGV[1] or added ~= ARGV[2] then return 0 end
end
redis.call('DEL', KEYS[1])
return 1
"""

# KEYS: the pointer, the stream. ARGV: the pointer that was seen ("" for none), the new pointer, the new parts' prefix
# and their number, the old parts' prefix and their number, seconds the old parts live on for whoever reads them, the
# id up to which (exclusive) the stream is trimmed. Reply: 1, or 0 when the pointer is another than was seen or a new
# part is missing.
SWITCH = """
local old = redis.pcall('GET', KEYS[1])
if type(old) ~= 'string' then old = '' end
if old ~= ARGV[1] then return 0 end
for n = 0, tonumber(ARGV[4]) - 1 do
  if redis.call('PERSIST', ARGV[3] .. n) == 0 and redis.call('EXISTS', ARGV[3] .. n) == 0 then return 0 end
end
redis.call('SET', KEYS[1], ARGV[2])
if ARGV[5] ~= ARGV[3] then
  for n = 0, tonumber(ARGV[6]) - 1 do redis.call('EXPIRE', ARGV[5] .. n, ARGV[7]) end
end
if redis.call('TYPE', KEYS[2])['ok'] == 'stream' then redis.call('XTRIM', KEYS[2], 'MINID', '=', ARGV[8]) end
return 1
"""

# KEYS: a part of a snapshot. Reply: its SHA-1 in hexadecimal; "" when there is none.
SUM = """
local part = redis.pcall('GET', KEYS[1])
if type(part) ~= 'string' then return '' end
return redis.sha1hex(part)
"""
