# docker build -t vibe . && docker run --rm -it -v "$PWD:/work" -e MISTRAL_API_KEY vibe
# With --build-arg EXTRAS=cluster it has what the workers of a cluster need, too.
FROM python:3.11-slim

RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir uv
RUN python -m venv --without-pip /opt/vibe
COPY requirements.txt /opt/src/
RUN uv pip install --no-cache --python /opt/vibe/bin/python --require-hashes -r /opt/src/requirements.txt
COPY . /opt/src/
RUN uv pip install --no-cache --python /opt/vibe/bin/python --no-deps /opt/src
# In that folder, whose pyproject.toml pins what extras bring.
ARG EXTRAS=
RUN if [ -n "$EXTRAS" ]; then cd /opt/src && uv pip install --no-cache --python /opt/vibe/bin/python ".[$EXTRAS]"; fi && rm -rf /opt/src
RUN useradd --create-home vibe && mkdir /work && chown vibe /work

ENV PATH=/opt/vibe/bin:$PATH
USER vibe
WORKDIR /work
ENTRYPOINT ["vibe"]
