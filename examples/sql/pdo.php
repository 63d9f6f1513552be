<?php
[, $holder, $attempt] = $argv;
$pass = null;

function connect(): PDO
{
    $dsn = sprintf('pgsql:host=%s;port=%s;dbname=%s;user=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE'), getenv('PGUSER'));
    return new PDO($dsn, null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => true]);
}

function transfer(PDO $db, bool $pause): void
{
    global $holder, $pass;
    $db->beginTransaction();
    $db->exec('set transaction isolation level ' . getenv('LEVEL'));
    $db->prepare('select ringfence.enter(?)')->execute([$pass]); // fence
    if ($pause) {
        echo "inside\n";
        fgets(STDIN);
    }
    $db->prepare('insert into ledger values (?)')->execute([$holder]);
    $db->commit();
}

$db = connect();
while (!$pass) { // fence
    $term = $db->prepare("select case when ready then pass end from ringfence.take('orders', ?, ?)"); // fence
    $term->execute([$holder, $attempt]); // fence
    $pass = $term->fetchColumn(); // fence
    usleep(10000);
}
transfer($db, false);
echo "wrote\n";
foreach ([true, false] as $pause) {
    try {
        transfer($db, $pause);
        echo "STALE\n";
    } catch (PDOException $e) {
        echo $e->getCode() === 'RF001' ? "refused\n" : "ended\n";
        $db = connect();
    }
}
