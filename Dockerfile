# A server for one saved model: docker build -t mixling-serve . && docker run -p 8000:8000 -v "$PWD/model:/models/model:ro" mixling-serve
# With ONNX Runtime, for models whose engine is "onnx" (`mixling serve` prints it): docker build --build-arg EXTRAS=serve,onnx .
FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS build
ARG EXTRAS=serve
# Without versions, as Debian keeps no old ones.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# The C core is compiled here; the compiler stays behind. Without bytecode each start would take a second longer.
RUN pip install --no-cache-dir --no-compile -c constraints.txt --target /app ".[$EXTRAS]" && sh deploy/prune.sh /app \
    && python -m compileall -q --invalidation-mode unchecked-hash /app

# The same Debian and Python, without a shell and packages.
FROM gcr.io/distroless/python3-debian12:nonroot@sha256:7d1042ce588ab97019fe95c24ffca7bc5a82ccdac572511d5e09bda4435c89c5
COPY --from=build /app /app
ENV PYTHONPATH=/app PYTHONDONTWRITEBYTECODE=1
# By number, so that Kubernetes knows that it is not root.
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["/usr/bin/python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["/usr/bin/python3", "-m", "mixling", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/model"]
