# Dependencies come before code, so that a change of the code rebuilds only the last, small layers.
ARG BASE=docker.io/library/python:3.12-slim

FROM ${BASE} AS dependencies
RUN python3 -m venv /opt/forebay
WORKDIR /build
COPY pyproject.toml constraints.txt ./
RUN python3 -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']))" \
        > requirements.txt \
    && /opt/forebay/bin/pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt

FROM dependencies AS code
COPY README* LICENSE ./
COPY operator operator
# Into a folder of its own: a copied folder is a small layer, and builders know by its content when it is stale.
RUN /opt/forebay/bin/pip install --no-cache-dir --no-deps --prefix /installed .

FROM ${BASE}
COPY --from=dependencies /opt/forebay /opt/forebay
COPY --from=code /installed /opt/forebay
ENV PATH=/opt/forebay/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
# A number, so that Kubernetes can see that it is not root (runAsNonRoot).
USER 65532:65532
ENTRYPOINT ["forebay"]
