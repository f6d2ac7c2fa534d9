# The two commands of README.md in a container, on CPUs; the wheel of this checkout is all of it:
#   docker build -t uedp-bench .
#   docker run --rm -v uedp-runs:/bench/runs uedp-bench quickstart
FROM python:3.11-slim AS source
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir -c constraints.txt build && python -m build -o /dist .

FROM python:3.11-slim
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
WORKDIR /dist
COPY --from=source /dist/*.whl /source/constraints.txt ./
RUN pip install --no-cache-dir -c constraints.txt ./*.whl
# Runs are a volume of somebody who is not root.
RUN useradd --home-dir /bench --create-home bench && install -d -o bench /bench/runs
USER bench
WORKDIR /bench
ENTRYPOINT ["uedp-bench"]
CMD ["quickstart"]
