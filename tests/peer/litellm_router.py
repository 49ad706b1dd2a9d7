"""LiteLLM's router as a peer on our Redis: litellm_router.py REDIS_PORT PROVIDER_URL RPM TIMES.

Two deployments, `a` and `b`, of the group `chat`, as the gateway's config has them. Asks TIMES times, one after the other,
and prints a JSON list: for each request the id that served it, or the error's name. Then waits until what it counted and
cooled has reached Redis.
"""
import asyncio
import json
import sys

import litellm

litellm.suppress_debug_info = True


def deployment(name: str, provider: str, rpm: int) -> dict:
    return {
        "model_name": "chat",
        "litellm_params": {
            "model": "openai/m",
            "api_base": f"{provider}/{name}/v1",
            "api_key": f"sk-{name}",
            "rpm": rpm,
        },
        "model_info": {"id": name},
    }


async def main(port: int, provider: str, rpm: int, times: int) -> None:
    router = litellm.Router(
        model_list=[deployment("a", provider, rpm), deployment("b", provider, rpm)],
        routing_strategy="usage-based-routing-v2",
        redis_host="127.0.0.1",
        redis_port=port,
        num_retries=0,
    )
    served = []
    for _ in range(times):
        try:
            answer = await router.acompletion(
                model="chat", messages=[{"role": "user", "content": "hello"}], caching=False
            )
            served.append(answer._hidden_params["model_id"])
        except Exception as error:  # noqa: BLE001 - its name is the result
            served.append(type(error).__name__)
    # It writes its counters every 0.1 s, and after the answer; nothing tells when it has.
    await asyncio.sleep(1.5)
    print(json.dumps(served))


asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
