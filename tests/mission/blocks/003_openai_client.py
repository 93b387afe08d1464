from openai import OpenAI

client = OpenAI(base_url="http://localhost:8000/v1", api_key="not-needed")
response = client.chat.completions.create(
    model="my-llama",
    messages=[{"role": "user", "content": "Explain gradient checkpointing in 2 sentences."}],
)
print(response.choices[0].message.content)
