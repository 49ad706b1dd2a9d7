"""Asks a gateway through the official SDK: chat.py BASE_URL. Any fault ends it with an exception."""
import sys

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="not-needed", max_retries=0, timeout=10)
model = client.models.list().data[0].id
ask = {"model": model, "messages": [{"role": "user", "content": "Say hello."}]}

plain = client.chat.completions.create(**ask)
text = plain.choices[0].message.content
assert text, plain
assert plain.usage.total_tokens > 0, plain
print("plain:", text)

pieces, finished = [], None
for chunk in client.chat.completions.create(**ask, stream=True):
    for choice in chunk.choices:
        pieces.append(choice.delta.content or "")
        finished = choice.finish_reason or finished
assert "".join(pieces), "the stream had no text"
assert finished == "stop", finished
print("streamed:", "".join(pieces))
