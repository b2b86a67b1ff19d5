"""Follow a topic and print each message as one line of JSON: python tail_as_json.py TOPIC [COUNT] | jq .value"""

import base64
import json
import os
import sys
from itertools import islice

import penstock

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")


def readable(data: bytes | None) -> object:
    """JSON as it is, text as text, anything else as base64."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


topic = sys.argv[1] if len(sys.argv) > 1 else "hello"
count = int(sys.argv[2]) if len(sys.argv) > 2 else None
with penstock.Consumer(topic, BOOTSTRAP, partitions="all", start="latest") as consumer:
    print(f"following {topic}; Ctrl-C ends", file=sys.stderr, flush=True)
    try:
        for message in islice(consumer, count):
            line = {
                "partition": message.partition,
                "offset": message.offset,
                "time": message.time.isoformat(),
                "key": readable(message.key),
                "value": readable(message.value),
                "headers": {name: readable(value) for name, value in message.headers},
            }
            print(json.dumps(line, ensure_ascii=False), flush=True)
    except KeyboardInterrupt:
        pass
