"use strict";
// Where logs ended and which records were read twice, as far as recorded; and what follows of both at a moment.

/** Give the rows of offsets the ends of their logs, and the records that were read again; each time all of them. */
function readLogs(history, document, strings) {
  for (const row of history.offsets) { row.ends = []; row.reads = []; row.highest = undefined; }
  const { logEnds, reads } = document;
  eachOfRows(logEnds, (topic, index, place, before) => {
    const end = { at: (before?.at ?? 0) + logEnds.at[place], offset: (before?.offset ?? 0) + logEnds.offset[place] };
    history.offsetRow(strings[topic], index).ends.push(end);
    return end;
  });
  eachOfRows(reads, (topic, index, place, before) => {
    const read = { at: (before?.at ?? 0) + reads.at[place], client: strings[reads.client[place]], first: reads.first[place], count: reads.count[place] };
    read.total = (before?.total ?? 0) + read.count;
    history.offsetRow(strings[topic], index).reads.push(read);
    return read;
  });
  history.offsets.sort(byPartition);
}

/** Calls `take` for each entry of columns with rows, with what it gave for the entry before of the same row. */
function eachOfRows({ rows }, take) {
  let place = 0;
  for (const [topic, index, count] of rows) {
    let before;
    for (const end = place + count; place < end; place++) before = take(topic, index, place, before);
  }
}

/**
 * A partition at the present moment: `step` is its last commit and `before` the one before; `end`, `lag` and `twice` are null
 * where they were not recorded. A log may have grown since the last response that said where it ended.
 */
function logAt(row, { history, cursor }) {
  const place = lastUpTo(row.spans, history.positions[cursor.index], (each) => each.began), step = row.spans[place];
  const end = row.ends[lastUpTo(row.ends, cursor.at, (each) => each.at)]?.offset ?? null;
  const read = row.reads[lastUpTo(row.reads, cursor.at, (each) => each.at)];
  return {
    step, before: row.spans[place - 1], end, lag: end === null || step?.offset == null ? null : Math.max(0, end - step.offset),
    twice: history.recorded.reads ? read?.total ?? 0 : null,
  };
}

/** What is not known of lag and of records that were read twice; empty if both are. */
function logNote({ history }) {
  const hasEnds = history.offsets.some((row) => row.ends.length);
  return [hasEnds ? word("lagAsOf") : word("lagNotRecorded"), ...(history.recorded.reads ? [] : [word("twiceNotRecorded")])].join(" ");
}
