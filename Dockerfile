# JobFlow's image: `docker build -t jobflow:0.1.0 .`
# What is installed is what requirements-runtime.lock names, by hash.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements-build.lock requirements-runtime.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements-build.lock
RUN python -m venv --without-pip /opt/jobflow \
 && pip --python /opt/jobflow/bin/python install --only-binary=:all: --require-hashes \
        -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
 && pip --python /opt/jobflow/bin/python install --no-deps --no-index /opt/wheels/*.whl

FROM python:${PYTHON}-slim
COPY --from=build /opt/jobflow /opt/jobflow
# The root file system is read-only where it runs; /tmp is what there is to write to.
ENV PATH=/opt/jobflow/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080 8443
ENTRYPOINT ["jobflow"]
CMD ["serve"]
