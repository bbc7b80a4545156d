#!/usr/bin/env bash
# The emulator with nothing but curl. Run it whole, or type it line by line.
set -euo pipefail

say() { printf '\n\n# %s\n' "$*"; }

export EMULATOR_URL=${EMULATOR_URL:-http://127.0.0.1:${EMULATOR_PORT:-8080}}
if ! curl -sf -o /dev/null "$EMULATOR_URL/_emulator/health"; then
  say "No emulator answers at $EMULATOR_URL. Start one."
  svc-emulator serve &
  trap 'kill $!; wait' EXIT
  curl -sf --retry 10 --retry-delay 1 --retry-connrefused "$EMULATOR_URL/_emulator/health"
fi

say "Its address and the token of its account, as SVC_URL and SVC_TOKEN."
eval "$(svc-emulator env)"
echo -n "$SVC_URL"

say "Let its clock stand still, so that time passes only when asked to."
curl -sS -X PUT "$SVC_URL/_emulator/clock" -d '{"rate": 0}'

say "Publish a message that is to be delivered in an hour."
curl -sS "$SVC_URL/v2/publish/https://app.example.com/remind" \
  -H "Authorization: Bearer $SVC_TOKEN" \
  -H "Content-Type: application/json" \
  -H "Svc-Delay: 1h" \
  -d '{"user": 7}'

say "Let the hour pass."
curl -sS "$SVC_URL/_emulator/clock/advance" -d '{"by": "1h"}'

say "What was delivered, exactly as it was sent. The host is not of this machine, so nobody was called."
curl -sS "$SVC_URL/_emulator/deliveries?url=https://app.example.com/*" | python3 -m json.tool

say "Let a destination be down for four attempts, and ask for two minutes before each retry."
curl -sS "$SVC_URL/_emulator/destinations" -d '{
  "match": {"url": "https://api.example.com/*"},
  "respond": {"status": 503, "headers": {"Retry-After": "120"}, "body": "closed for maintenance"},
  "times": 4
}'

say "Publish to it. The first attempt is made at once, and fails."
curl -sS "$SVC_URL/v2/publish/https://api.example.com/orders" \
  -H "Authorization: Bearer $SVC_TOKEN" \
  -H "Content-Type: application/json" \
  -H "Svc-Retries: 3" \
  -H "Svc-Label: tour" \
  -d '{"order": 42}'

say "Let time pass until nothing is left to do."
curl -sS -X POST "$SVC_URL/_emulator/clock/drain"

say "All three retries failed as well. The message is in the dead letter queue."
curl -sS "$SVC_URL/v2/dlq?label=tour" -H "Authorization: Bearer $SVC_TOKEN" | python3 -m json.tool

say "The destination is up again. Retry what has failed."
curl -sS -X POST "$SVC_URL/v2/dlq/retry?label=tour" -H "Authorization: Bearer $SVC_TOKEN"

say "The delivery that succeeded; the four that failed have outcome=failed."
curl -sS "$SVC_URL/_emulator/deliveries?url=https://api.example.com/*&outcome=succeeded" | python3 -m json.tool

say "The dead letter queue is empty."
curl -sS "$SVC_URL/v2/dlq?label=tour" -H "Authorization: Bearer $SVC_TOKEN"

say "Let the clock run again, in real time."
curl -sS -X PUT "$SVC_URL/_emulator/clock" -d '{"rate": 1}'
echo
