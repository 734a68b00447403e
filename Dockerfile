# The image of JobFlow: `docker build -t jobflow:0.1.0 .`
# It installs the packages of requirements-runtime.lock, by hash.
# The digest is that of python:3.11-slim-bookworm with Python 3.11.16, for amd64, arm64, arm/v7, 386
# and ppc64le. `docker buildx imagetools inspect python:3.11-slim-bookworm` prints the digest of a newer one.
ARG BASE=python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements-build.lock requirements-runtime.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes --no-deps -r requirements-build.lock
RUN python -m venv --without-pip /opt/jobflow \
 && pip --python /opt/jobflow/bin/python install --only-binary=:all: --require-hashes \
        --no-deps -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
 && pip --python /opt/jobflow/bin/python install --no-deps --no-index /opt/wheels/*.whl

FROM ${BASE}
COPY --from=build /opt/jobflow /opt/jobflow
# In a pod, the root file system is read-only; /tmp is writable.
ENV PATH=/opt/jobflow/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080 8443
ENTRYPOINT ["jobflow"]
CMD ["serve"]
