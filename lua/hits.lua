-- The exact log: its hits are in a key of their own, a string of 12 bytes a hit, oldest first: I7 at_us I5 cost. The entry in
-- the record says how many there are and how many of the first are dead. A log that lost hits has not used them.
--
-- In memory an entry's payload is {used, head, hits}, as in the record, and once opened has:
--   key          the log's key
--   seen, base   times and costs in turn of stored hits, as far as they were read, from number `base` on
--   new, stored  times and costs in turn of hits to be stored, from number `stored` on, which may replace one
--   text         instead of these: the whole log as it shall be
-- Hits are numbered from 0, the dead ones too. Offers logs(), which makes, when first asked for:
--   open(x, key)                         gets a payload ready to be read
--   range(key, from, to)                 the bytes of the hits numbered from `from` to before `to`
--   look(limit, e, i, cost, key)         used, oldest_us (0: none), wait_us (0: fits, 2^53: never); i may be 0
--   spend(limit, e, i, cost, key, to)    records a cost at place `to`, which is i unless that is 0; how long that will matter
--   shorten(x)                           before the record is written: takes the dead out of the log, if that is worth it
--   write(x, ttl_ms)                     after it

local logs_made

local function logs()
  if logs_made then
    return logs_made
  end
  local NEVER_US, CHUNK_HITS = 2^53, 100
  -- Dead hits are taken out when they are more than half, and more than so many.
  local DEAD_HITS_MIN = 64

  local function range(key, from, to)
    local text = from < to and redis.pcall('GETRANGE', key, from * 12, to * 12 - 1)
    return type(text) == 'string' and text or ''
  end

  -- The time and cost of a hit; nothing where the log has none.
  local function hit(x, number)
    if number >= x.stored then
      local slot = (number - x.stored) * 2
      return x.new[slot + 1], x.new[slot + 2]
    end
    local seen, slot = x.seen, (number - x.base) * 2
    while slot >= #seen do
      local from = x.base + #seen / 2
      local text = range(x.key, from, math.min(from + CHUNK_HITS, x.stored))
      if text == '' then
        return nil
      end
      local last = #seen
      for at = 1, #text - 11, 12 do
        seen[last + 1], seen[last + 2] = unbytes('<I7I5', text, at)
        last = last + 2
      end
    end
    return seen[slot + 1], seen[slot + 2]
  end

  -- Adds up what there is.
  local function recount(x, stored)
    x[3] = math.min(x[3], stored)
    if x[2] >= x[3] then
      x[2], x[3] = 0, 0
    end
    x.base, x.stored = x[2], x[3]
    local used = 0
    for number = x[2], x[3] - 1 do
      local _, cost = hit(x, number)
      used = used + cost
    end
    x[1] = used
  end

  local function open(x, key)
    if x.key then
      return
    end
    x.key, x.seen, x.base, x.new, x.stored = key, {}, x[2], {}, x[3]
    local length = redis.pcall('STRLEN', key)
    local stored = type(length) == 'number' and (length - length % 12) / 12 or 0
    -- A sum that may have been cut off is none.
    if stored < x[3] or x[1] >= 2^40 - 1 then
      recount(x, stored)
    end
  end

  -- What is used, and the number of the first living hit.
  local function living_hits(limit, x, at_us, now)
    local used, head, hits, window_us = x[1], x[2], x[3], limit[5]
    if at_us + window_us <= now then
      return 0, hits
    end
    while head < hits do
      local time, cost = hit(x, head)
      if time + window_us > now then
        return math.max(used, cost), head
      end
      head, used = head + 1, used - cost
    end
    return 0, hits
  end

  -- Another algorithm's usage, or nothing's, is one hit: what it holds, and its time.
  local function foreign_hit(limit, e, i)
    local _, at_us, group = adopted(limit, e, i)
    return at_us + limit[5] > now_us and group[1] or 0, at_us > now_us and at_us or now_us, at_us
  end

  local function look(limit, e, i, cost, key)
    local capacity, window_us = limit[4], limit[5]
    local used, oldest_us, wait_us = 0, 0, 0
    if i == 0 or e[i + 1] % 16 ~= 6 then
      local now, at_us
      used, now, at_us = foreign_hit(limit, e, i)
      if used > 0 then
        oldest_us = at_us
        wait_us = used + cost > capacity and at_us + window_us - now or 0
      end
    else
      local x, at_us = e[i + 3], e[i + 2]
      local now, head = at_us > now_us and at_us or now_us, nil
      open(x, key)
      used, head = living_hits(limit, x, at_us, now)
      oldest_us = used > 0 and hit(x, head) or 0
      local left = used
      while left > 0 and left + cost > capacity do
        local time, freed = hit(x, head)
        -- A hit that was cut off at what five bytes hold is less than its part of the sum.
        if not time then
          break
        end
        left, head, wait_us = left - freed, head + 1, time + window_us - now
      end
    end
    return used, oldest_us, cost > capacity and NEVER_US or wait_us
  end

  -- A log of one hit.
  local function begin(limit, e, to, key, at_us, cost)
    cost = math.min(cost, 2^40 - 1)
    local x = {cost, 0, 1}
    x.key, x.seen, x.base, x.new, x.stored = key, {}, 0, {at_us, cost}, 0
    e[to], e[to + 1], e[to + 2], e[to + 3] = limit[1], 6 + limit[9], at_us, x
    return at_us + limit[5] - now_us
  end

  local function spend(limit, e, i, cost, key, to)
    if i == 0 or e[i + 1] % 16 ~= 6 then
      local used, now = foreign_hit(limit, e, i)
      return begin(limit, e, to, key, now, used + cost)
    end
    local x, at_us = e[i + 3], e[i + 2]
    local now = at_us > now_us and at_us or now_us
    open(x, key)
    local used, head = living_hits(limit, x, at_us, now)
    if used == 0 then
      return begin(limit, e, to, key, now, cost)
    end
    x[1], x[2] = used + cost, head
    local last = x[3] - 1
    if at_us == now then
      -- Hits of one microsecond are one.
      if last < x.stored then
        x.new, x.stored = {unbytes('<I7I5', range(key, last, last + 1))}, last
      end
      local slot = (last - x.stored) * 2 + 2
      x.new[slot] = math.min(x.new[slot] + cost, 2^40 - 1)
    else
      local slot = (last + 1 - x.stored) * 2
      x.new[slot + 1], x.new[slot + 2], x[3] = now, cost, last + 2
    end
    e[i + 1], e[i + 2] = 6 + limit[9], now
    return now + limit[5] - now_us
  end

  local function new_bytes(x)
    local hits = {}
    for number = x.stored, x[3] - 1 do
      hits[#hits + 1] = pack('<I7I5', hit(x, number))
    end
    return table.concat(hits)
  end

  local function shorten(x)
    local head, hits = x[2], x[3]
    if head > DEAD_HITS_MIN and head * 2 > hits then
      x.text = range(x.key, head, x.stored) .. new_bytes(x)
      x[2], x[3] = 0, hits - head
    end
  end

  local function write_log(x, ttl_ms)
    if x.text or x.stored == 0 then
      call('SET', x.key, x.text or new_bytes(x), 'PX', ttl_ms)
    else
      call('SETRANGE', x.key, x.stored * 12, new_bytes(x))
      call('PEXPIRE', x.key, ttl_ms)
    end
  end

  logs_made = {open = open, range = range, look = look, spend = spend, shorten = shorten, write = write_log}
  return logs_made
end
