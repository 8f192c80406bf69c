# regroup as a container. tests/test_docker.py runs the commands of this file in a folder; no test builds the image.
#
#   docker build -t regroup .
#   docker run --rm -p 127.0.0.1:9092:9092 regroup          clients of this machine connect to localhost:9092
#   docker run --rm regroup demo --help                     any other command

FROM python:3.12-slim AS build
COPY . /source
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement /source/requirements-demo.lock
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /source
RUN python -m venv /opt/regroup \
    && /opt/regroup/bin/pip install --no-cache-dir --require-hashes --requirement /source/requirements-docker.lock
RUN /opt/regroup/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home --home-dir /data regroup
COPY --from=build /opt/regroup /opt/regroup
ENV PATH=/opt/regroup/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 9092 9080
# An ApiVersions request, and the first bytes of its response.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import socket; s = socket.create_connection(('127.0.0.1', 9092), 2); s.settimeout(2); s.sendall(bytes.fromhex('0000000a0012000000000001ffff')); assert len(s.recv(8)) == 8"]
ENTRYPOINT ["regroup"]
CMD ["serve", "--host", "0.0.0.0", "--advertise", "localhost:9092", "--store", "/data/regroup.db"]
