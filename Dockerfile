# A server for one saved model: docker build -t mixling-serve . && docker run -p 8000:8000 -v "$PWD/model:/models/model:ro" mixling-serve
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# The native engine is compiled here; the compiler stays behind.
RUN python -m venv /app && /app/bin/pip install --no-cache-dir -c constraints.txt ".[serve]" \
    && find /app -name tests -type d -prune -exec rm -r {} + \
    && find /app -name __pycache__ -type d -prune -exec rm -r {} + \
    && /app/bin/pip uninstall -y pip setuptools

FROM python:3.11-slim
COPY --from=build /app /app
RUN useradd --system --no-create-home mixling && mkdir /models
USER mixling
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["/app/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["/app/bin/mixling", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/model"]
