"""Keeps what attention_cuda_limit measures of wgmma with nothing beside it: limit.py PROGRAM [--name NAME] [--seconds 1]."""
import argparse
import json
import subprocess

import kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="attention_cuda_limit of a build")
    parser.add_argument("--name", help="of the result that is kept")
    parser.add_argument("--seconds", default="1", help="for each shape")
    args = parser.parse_args()
    result = kept.Result("limit.py", args.name, "wgmma alone", "bf16")
    text = subprocess.run([args.program, args.seconds], check=True, capture_output=True, text=True).stdout
    print(text)
    result.keep([json.loads(line) for line in text.splitlines()])


if __name__ == "__main__":
    main()
