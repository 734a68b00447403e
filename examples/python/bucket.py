"""Files in a bucket: each function writes below a prefix of its own, and returns the address.

python examples/python/bucket.py > flow.yaml
jobflow run --runner process flow.yaml bucket.yaml

The image needs universal-pathlib and s3fs. The Secret `bucket` (in bucket.yaml) has
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL; docs/cookbook/files-in-a-bucket.md
makes one.
"""

from jobflow.authoring import Flow

IMAGE = "registry.example.com/python-s3:3.12"
POD_UID = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
BUCKET = {"envFrom": [{"secretRef": {"name": "bucket"}}], "env": [POD_UID]}

flow = Flow("wordcount-in-python", params={"bucket": "results"})


@flow.task(image=IMAGE, container=BUCKET)
def write(bucket: str) -> dict[str, str]:
    import os

    from upath import UPath

    # the UID of the pod is new for each attempt, so that none sees files of another
    files = UPath(f"s3://{bucket}/wordcount/{os.environ['POD_UID']}")
    (files / "words.txt").write_text("to be or not to be")
    return {"files": str(files)}


@flow.task(image=IMAGE, container=BUCKET)
def count(files: str) -> dict[str, int]:
    from upath import UPath

    found = sorted(UPath(files).glob("*.txt"))
    # a prefix without files is an empty list
    if not found:
        raise FileNotFoundError(f"{files} has no files")
    return {"words": sum(len(each.read_text().split()) for each in found)}


written = write(flow.params.bucket)
count(written.outputs.files)

if __name__ == "__main__":
    print(flow.yaml())
