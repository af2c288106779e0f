-- wrk's own report rounds its figures; this one doesn't. Nothing here runs while requests are made.
done = function(summary, latency, requests)
  local errors = summary.errors
  print(string.format(
    '{"requests":%d,"elapsed_us":%d,"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}',
    summary.requests, summary.duration, errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
